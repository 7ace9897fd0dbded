//! The mesh file and its ports.

use super::{options::QuickstartOptions, temporary_file::TemporaryFile, view::SERVICE};
use linkerd_proxy_core::BoxError;
use std::{
    fs::{self, File},
    io::{self, ErrorKind, Write},
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
};

/// A mesh file, and a listener for each of its ports.
#[derive(Debug)]
pub(super) struct Mesh {
    pub(super) path: PathBuf,
    pub(super) backends: Vec<TcpListener>,
    pub(super) switch: TcpListener,
    /// The port of the backends' sidecar; `None` in a file of an earlier version.
    pub(super) sidecar: Option<u16>,
    /// Usual ports that were in use, and their replacements.
    pub(super) moved: Vec<(u16, u16)>,
    /// Removes the file at the end, if it is temporary.
    pub(super) removal: Option<TemporaryFile>,
}

/// Finds the mesh file, or writes one for free ports.
pub(super) fn prepare(options: &QuickstartOptions) -> Result<Mesh, BoxError> {
    let path = match &options.file {
        Some(path) => path.clone(),
        None if options.once => {
            let name = format!("linkerd-quickstart-{}.yaml", std::process::id());
            std::env::temp_dir().join(name)
        }
        None => PathBuf::from(DEFAULT_FILE),
    };
    let remove = options.once && options.file.is_none();
    match fs::read_to_string(&path) {
        Ok(text) => existing(path, &text),
        Err(error) if error.kind() == ErrorKind::NotFound => create(path, remove),
        Err(error) => Err(format!("{error}: {} cannot be read", path.display()).into()),
    }
}

/// Refuses a file without the service of the requests. Other errors are reported when it is loaded.
pub(super) fn check_service(path: &Path, text: &str) -> Result<(), BoxError> {
    let file = path.display().to_string();
    let Ok(mesh) = linkerd_control::Mesh::parse(&file, text) else {
        return Ok(());
    };
    let wanted = format!("{SERVICE}:80");
    match mesh.authorities().any(|authority| authority == wanted) {
        true => Ok(()),
        false => Err(format!(
            "the file has no service web, which the requests are for: {file} needs `name: web` with `port: 80`, or \
             name another file with --file"
        )
        .into()),
    }
}

fn existing(path: PathBuf, text: &str) -> Result<Mesh, BoxError> {
    check_service(&path, text)?;
    let mut listeners = Vec::new();
    for port in ports(text) {
        listeners.push(listen(port).map_err(|error| {
            let file = path.display();
            format!(
                "{error}: port {port}, which {file} names, cannot be listened on. Stop what listens there, or remove \
                 {file}: then free ports are chosen"
            )
        })?);
    }
    mesh(path, listeners, Vec::new(), None)
}

fn create(path: PathBuf, remove: bool) -> Result<Mesh, BoxError> {
    let mut text = EXAMPLE.to_owned();
    let (mut listeners, mut moved) = (Vec::new(), Vec::new());
    for usual in PORTS {
        let listener = listen(usual).or_else(|_| listen(0))?;
        let port = listener.local_addr()?.port();
        if port != usual {
            moved.push((usual, port));
        }
        for mark in MARKS {
            text = text.replace(&format!("{mark}{usual}"), &format!("{mark}{port}"));
        }
        listeners.push(listener);
    }
    let named: Vec<_> = listeners
        .iter()
        .map(|listener| Ok(listener.local_addr()?.port().to_string()))
        .collect::<io::Result<_>>()?;
    let usual = PORTS.map(|port| port.to_string());
    for (before, separator, ports) in [(PORTS_LINE, " ", PORTS.len()), ("ports: [", ", ", BACKENDS)]
    {
        let list = |ports: &[String]| format!("{before}{}", ports.join(separator));
        text = text.replace(&list(&usual[..ports]), &list(&named[..ports]));
    }
    write(&path, &text).map_err(|error| {
        format!(
            "{error}: {} cannot be written; name another one with --file",
            path.display()
        )
    })?;
    let remove = remove.then(|| TemporaryFile(path.clone()));
    mesh(path, listeners, moved, remove)
}

fn mesh(
    path: PathBuf,
    mut listeners: Vec<TcpListener>,
    moved: Vec<(u16, u16)>,
    remove: Option<TemporaryFile>,
) -> Result<Mesh, BoxError> {
    let sidecar = match listeners.len() {
        // The proxy binds it later.
        n if n == PORTS.len() => listeners.pop(),
        _ => None,
    };
    let sidecar = sidecar.map(|listener| listener.local_addr()).transpose()?;
    let switch = listeners.pop().ok_or("the mesh file names no ports")?;
    Ok(Mesh {
        path,
        backends: listeners,
        switch,
        sidecar: sidecar.map(|addr| addr.port()),
        moved,
        removal: remove,
    })
}

/// The ports in a file, or else the usual ones.
fn ports(text: &str) -> Vec<u16> {
    let line = text.lines().find_map(|line| line.strip_prefix(PORTS_LINE));
    let ports = line.unwrap_or_default().split_whitespace();
    let ports: Vec<u16> = ports.filter_map(|port| port.parse().ok()).collect();
    match ports.len() {
        // Files of earlier versions have no sidecar, or no canary either.
        n if (PORTS.len() - 2..=PORTS.len()).contains(&n) => ports,
        _ => PORTS.to_vec(),
    }
}

fn listen(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port))
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    // A file created meanwhile is not overwritten.
    File::create_new(path)?.write_all(text.as_bytes())
}

const EXAMPLE: &str = include_str!("../../examples/mesh.yaml");
const DEFAULT_FILE: &str = "linkerd-quickstart.yaml";

/// The ports of the example: the backends', of which the last is the canary, the switch's, and that of the backends' sidecar.
const PORTS: [u16; 6] = [7001, 7002, 7003, 7004, 7000, 7010];

/// The number of backends.
const BACKENDS: usize = 4;

/// Prefix of the ports in a file for other ports.
const PORTS_LINE: &str = "# ports: ";

/// Prefixes of ports: an endpoint's, and that of its sidecar.
const MARKS: [&str; 2] = ["127.0.0.1:", "proxyPort: "];

#[cfg(test)]
mod tests {
    use super::*;

    fn port(listener: &TcpListener) -> u16 {
        listener.local_addr().unwrap().port()
    }

    #[test]
    fn the_example_is_valid_and_names_the_usual_ports() {
        let mesh = linkerd_control::Mesh::parse("mesh.yaml", EXAMPLE).unwrap();
        let web = "web.default.svc.cluster.local:80";
        assert!(mesh.authorities().any(|authority| authority == web));
        assert_eq!(mesh.endpoints(), 4);
        assert_eq!(ports(EXAMPLE), PORTS);
        assert_eq!(ports("services: []"), PORTS);
        assert_eq!(ports("# ports: 1 2 3 4 5 6\n"), [1, 2, 3, 4, 5, 6]);
        assert_eq!(ports("# ports: 1 2 3 4 5\n"), [1, 2, 3, 4, 5]);
        assert_eq!(ports("# ports: 1 2 3 4\n"), [1, 2, 3, 4]);
    }

    #[test]
    fn the_example_splits_the_traffic_and_the_proxy_can_use_its_policies() {
        let mesh = linkerd_control::Mesh::parse("mesh.yaml", EXAMPLE).unwrap();
        for (policy, _) in mesh.messages() {
            let policy = linkerd_api_client::convert::client_policy(policy);
            assert_eq!(policy.invalid, None);
        }
        let (web, _) = mesh.messages().next().unwrap();
        let shown = format!("{web:?}");
        for part in ["FailureInjector", "weight: 90", "weight: 10"] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
    }

    #[test]
    fn a_file_is_written_for_free_ports_and_then_used_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let options = QuickstartOptions {
            file: Some(dir.path().join("mesh.yaml")),
            ..QuickstartOptions::default()
        };
        // Takes the usual ports, unless they are in use.
        let _taken: Vec<_> = PORTS.iter().filter_map(|port| listen(*port).ok()).collect();
        let mesh = prepare(&options).unwrap();
        let listeners = mesh.backends.iter().chain([&mesh.switch]);
        let chosen: Vec<_> = listeners.map(port).chain(mesh.sidecar).collect();
        assert!(chosen.iter().all(|port| !PORTS.contains(port)));
        let moved: Vec<_> = PORTS.into_iter().zip(chosen.iter().copied()).collect();
        assert_eq!(mesh.moved, moved);
        let text = fs::read_to_string(&mesh.path).unwrap();
        assert_eq!(ports(&text), chosen);
        for port in &chosen[..4] {
            assert!(text.contains(&format!("- 127.0.0.1:{port}")), "{text}");
        }
        let sidecar = format!("proxyPort: {}\n", chosen[5]);
        assert_eq!(text.matches(&sidecar).count(), 2, "{text}");
        let servers = linkerd_control::Mesh::parse("mesh.yaml", &text).unwrap();
        let servers: Vec<_> = servers.servers().map(|(port, _)| port).collect();
        assert_eq!(servers, chosen[..4]);
        let error = prepare(&options).unwrap_err().to_string();
        assert!(
            error.contains("in use") && error.contains("remove"),
            "{error}"
        );
        drop(mesh);
        let again = prepare(&options).unwrap();
        assert_eq!(
            again.backends.iter().map(port).collect::<Vec<_>>(),
            chosen[..4]
        );
        assert_eq!(fs::read_to_string(&again.path).unwrap(), text);
    }

    #[test]
    fn a_file_without_the_service_of_the_requests_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("mesh.yaml");
        fs::write(&file, "services: [{name: wob, port: 80, endpoints: []}]\n").unwrap();
        let options = QuickstartOptions {
            file: Some(file),
            ..QuickstartOptions::default()
        };
        let error = prepare(&options).unwrap_err().to_string();
        assert!(error.starts_with("the file has no service web"), "{error}");
        assert!(error.contains("mesh.yaml"), "{error}");
    }

    #[test]
    fn the_file_of_a_single_run_is_removed() {
        let options = QuickstartOptions {
            once: true,
            ..QuickstartOptions::default()
        };
        let mesh = prepare(&options).unwrap();
        let path = mesh.path.clone();
        assert!(path.exists());
        drop(mesh);
        assert!(!path.exists());
    }
}
