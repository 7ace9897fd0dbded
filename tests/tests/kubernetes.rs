//! A mesh made only from the manifests of `deploy/kubernetes`: the controller by its Deployment's command line with the mesh
//! file of its ConfigMap, and sidecars with the environment that `inject` writes. Addresses are of loopback.

#![allow(clippy::unwrap_used, missing_docs)]

use linkerd_tests::{
    Admin, Builder, Http1, Proxy, SOON, Server, TokenIssuer, binary, documents, eventually, soon,
};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use serde_json::Value;
use std::{fs, net::SocketAddr, os::unix::fs::PermissionsExt, path::PathBuf, process::Stdio};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

#[tokio::test]
async fn the_controller_of_the_manifests_serves_injected_sidecars() {
    let (v1, v2) = tokio::join!(Server::says("v1"), Server::says("v2"));
    let servers = [v1.addr(), v2.addr()];
    let files = files();
    write_mesh(&files, servers, PROXY_PORT);
    let controller = Controller::start(files).await;
    // Servers at the address of a proxy's own pod are called without the proxy.
    let start = async |name, ip| {
        let sidecar = controller.sidecar(name, servers).await;
        sidecar.env("LINKERD2_PROXY_INBOUND_IPS", ip).start().await
    };
    let (client, web, guest) = tokio::join!(
        start("client", "127.0.0.2"),
        start("web-v1", "127.0.0.1"),
        start("web-v2", "127.0.0.3"),
    );
    write_mesh(&controller.files, servers, web.inbound.port());
    eventually(SOON, "the client reaches the service", || async {
        (status(&client).await == 200).then_some(())
    })
    .await;
    let tls = [("direction", "outbound"), ("tls", "true")];
    let metrics = client.metrics().await;
    assert!(metrics.sum("request_total", &tls) >= 1.0, "{metrics:?}");
    assert_eq!(
        v1.seen().iter().chain(&v2.seen()).last().unwrap().headers["l5d-client-id"],
        CLIENT
    );
    // A server is not a client of the service.
    assert_eq!(status(&guest).await, 403);

    // Requests like the kubelet's, and like other clients'.
    let port = servers[0].port();
    assert!(is_let_in(web.admin, port, &[], "/health").await);
    assert!(!is_let_in(web.admin, port, &[], "/").await);
    assert!(is_let_in(web.admin, port, &["--identity", CLIENT], "/").await);

    let metrics = controller.admin.metrics().await;
    let issued = [("outcome", "issued")];
    assert_eq!(metrics.sum("controller_certificates_total", &issued), 3.0);
}

/// The mesh files in the YAML blocks of a document.
fn mesh_files(document: &str) -> Vec<String> {
    let path = deploy().join("../..").join(document);
    let text = fs::read_to_string(path).unwrap();
    let blocks = text.split("```yaml\n").skip(1);
    let blocks = blocks.map(|block| block.split("\n```").next().unwrap().to_owned());
    blocks
        .filter(|block| block.starts_with("services:"))
        .collect()
}

#[test]
fn the_mesh_files_of_the_documents_pass_check_and_have_the_route_that_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mesh.yaml");
    let run = |args: &[&str]| {
        let output = std::process::Command::new(binary())
            .args(args)
            .current_dir(dir.path())
            .env_clear()
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{args:?}: {text}");
        text
    };
    for (document, count) in [
        ("docs/kubernetes.md", 1),
        ("docs/operations.md", 1),
        ("linkerd-control/README.md", 3),
    ] {
        let blocks = mesh_files(document);
        assert_eq!(blocks.len(), count, "{document}");
        for text in blocks {
            fs::write(&file, &text).unwrap();
            let report = run(&["check", "--mesh", "mesh.yaml", "--mesh-only"]);
            let warnings: Vec<_> = report.lines().filter(|it| it.contains("warn ")).collect();
            // One document shows a service without endpoints.
            let is_meant = warnings
                .iter()
                .all(|it| it.contains("the service empty has"));
            assert!(is_meant, "{document}: {report}");
            if document == "docs/kubernetes.md" {
                // The next command of the page.
                let way = run(&["explain", "--mesh", "mesh.yaml", "GET", "http://web.shop/"]);
                assert!(way.contains("web-v1") && way.contains("90.0 %"), "{way}");
            }
        }
    }
}

/// The files of the controller's volumes and of the sidecars.
fn files() -> TempDir {
    let files = tempfile::tempdir().unwrap();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key).unwrap().pem();
    fs::write(files.path().join("tls.crt"), certificate).unwrap();
    let private = files.path().join("tls.key");
    fs::write(&private, key.serialize_pem()).unwrap();
    // The mode of the Secret's volume.
    fs::set_permissions(private, fs::Permissions::from_mode(0o440)).unwrap();
    let issuer = TokenIssuer::new();
    fs::write(files.path().join("jwks.json"), issuer.keys()).unwrap();
    for account in ["client", "web"] {
        let token = issuer.token(&format!("system:serviceaccount:shop:{account}"));
        fs::write(files.path().join(format!("{account}.token")), token).unwrap();
    }
    files
}

/// Writes the mesh file of the ConfigMap, with these addresses for the two versions behind one proxy.
fn write_mesh(files: &TempDir, servers: [SocketAddr; 2], proxy: u16) {
    let map = &documents(&manifest("control/mesh.yaml"))[0];
    let [v1, v2] = servers;
    let mut text = map["data"]["mesh.yaml"].as_str().unwrap().to_owned();
    for (from, to) in [
        ("[web-v1.shop.svc.cluster.local:8080]", format!("['{v1}']")),
        ("[web-v2.shop.svc.cluster.local:8080]", format!("['{v2}']")),
        ("[web.shop.svc.cluster.local]", "[127.0.0.1]".to_owned()),
        ("proxyPort: 4143", format!("proxyPort: {proxy}")),
        (
            "port: 8080\n    routes",
            format!("ports: [{}, {}]\n    routes", v1.port(), v2.port()),
        ),
    ] {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, &to);
    }
    linkerd_control::Mesh::parse("mesh.yaml", &text).unwrap();
    fs::write(files.path().join("mesh.yaml"), text).unwrap();
}

/// The controller as a process.
struct Controller {
    files: TempDir,
    addr: SocketAddr,
    admin: Admin,
    _child: Child,
}

impl Controller {
    /// Starts the controller with the arguments of its Deployment.
    async fn start(files: TempDir) -> Self {
        let deployment = &documents(&manifest("control/deployment.yaml"))[0];
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        let own = files.path().display().to_string();
        let args = container["args"].as_array().unwrap().iter().map(|arg| {
            let arg = arg.as_str().unwrap().replace("[::]:8086", "[::]:0");
            let arg = arg.replace("[::]:9990", "[::]:0");
            let arg = arg.replace("/etc/linkerd-control/mesh", &own);
            let arg = arg.replace("/etc/linkerd-control/token-keys", &own);
            arg.replace("/etc/linkerd-control/authority", &own)
        });
        let mut child = Command::new(binary())
            .args(args)
            .env_clear()
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut port_after = async |text: &str| -> u16 {
            loop {
                let line = soon(lines.next_line()).await.unwrap();
                if let Some((_, addr)) = line.expect("it runs").split_once(text) {
                    return addr.split(' ').next().unwrap().parse().unwrap();
                }
            }
        };
        let admin = port_after("Admin server of the controller listens on [::]:").await;
        let admin = Admin {
            addr: ([127, 0, 0, 1], admin).into(),
        };
        // The address leads to loopback but is not treated as such: sidecars use TLS only with other controllers.
        let addr = (
            [0, 0, 0, 0],
            port_after("Controller listens on [::]:").await,
        )
            .into();
        for probe in ["readinessProbe", "livenessProbe"] {
            let path = container[probe]["httpGet"]["path"].as_str().unwrap();
            let is_well = async || (admin.get(path).await.status == 200).then_some(());
            eventually(SOON, probe, is_well).await;
        }
        Self {
            files,
            addr,
            admin,
            _child: child,
        }
    }

    /// The sidecar of a workload of the example, as written by `inject`.
    async fn sidecar(&self, workload: &str, servers: [SocketAddr; 2]) -> Builder {
        let file = ["client", "web"]
            .into_iter()
            .find(|name| workload.starts_with(name));
        let account = file.unwrap();
        let file = deploy().join(format!("example/{account}.yaml"));
        let injected = Command::new(binary())
            .args(["inject", "--control-plane-namespace=linkerd-proxy"])
            .arg("--identity-trust-anchors-file")
            .arg(self.files.path().join("tls.crt"))
            .arg(file)
            .env_clear()
            .output()
            .await
            .unwrap();
        let objects = documents(&String::from_utf8(injected.stdout).unwrap());
        let object = objects
            .iter()
            .find(|it| it["kind"] == "Deployment" && it["metadata"]["name"] == workload);
        let mut builder = Builder::new(self.addr).env("LINKERD_PROXY_INBOUND_ADMIT_LOOPBACK", 0);
        for (name, value) in environment(object.unwrap()) {
            let value = match &*name {
                name if name.ends_with("_SVC_ADDR") => self.addr.to_string(),
                name if name.contains("_LISTEN_ADDR") => "127.0.0.1:0".to_owned(),
                "LINKERD2_PROXY_INBOUND_PORTS" => servers.map(|it| it.port().to_string()).join(","),
                "LINKERD2_PROXY_IDENTITY_DIR" => self.path(workload),
                "LINKERD2_PROXY_IDENTITY_TOKEN_FILE" => self.path(&format!("{account}.token")),
                _ => value,
            };
            builder = builder.env(&name, value);
        }
        builder
    }

    fn path(&self, name: &str) -> String {
        self.files.path().join(name).display().to_string()
    }
}

/// The environment of a sidecar, with the fields of a pod.
fn environment(workload: &Value) -> Vec<(String, String)> {
    let spec = &workload["spec"]["template"]["spec"];
    let containers = spec["initContainers"].as_array().unwrap();
    let proxy = containers
        .iter()
        .find(|it| it["name"] == "linkerd-proxy")
        .unwrap();
    let mut environment: Vec<(String, String)> = Vec::new();
    for variable in proxy["env"].as_array().unwrap() {
        let mut value = match variable["valueFrom"]["fieldRef"]["fieldPath"].as_str() {
            None => variable["value"].as_str().unwrap(),
            Some("metadata.namespace") => workload["metadata"]["namespace"].as_str().unwrap(),
            Some("spec.serviceAccountName") => spec["serviceAccountName"].as_str().unwrap(),
            Some("status.podIP" | "status.podIPs") => "127.0.0.1",
            Some(_) => "some",
        }
        .to_owned();
        for (name, known) in &environment {
            value = value.replace(&format!("$({name})"), known);
        }
        environment.push((variable["name"].as_str().unwrap().to_owned(), value));
    }
    environment
}

async fn status(proxy: &Proxy) -> u16 {
    let mut client = Http1::connect(proxy.outbound).await;
    client
        .get("http://web.shop/")
        .await
        .unwrap()
        .status
        .as_u16()
}

/// Whether a sidecar would admit a client, by the command `explain`.
async fn is_let_in(admin: Admin, port: u16, client: &[&str], path: &str) -> bool {
    let status = Command::new(binary())
        .args(["explain", "--client=10.0.0.7", "--port", &port.to_string()])
        .args(["--admin", &admin.addr.to_string()])
        .args(client)
        .args(["GET", &format!("http://web{path}")])
        .env_clear()
        .stdout(Stdio::null())
        .status()
        .await
        .unwrap();
    status.success()
}

fn manifest(name: &str) -> String {
    fs::read_to_string(deploy().join(name)).unwrap()
}

fn deploy() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../deploy/kubernetes")
}

/// The port of proxies in the manifests.
const PROXY_PORT: u16 = 4143;

/// The identity of the example's client.
const CLIENT: &str = "client.shop.serviceaccount.identity.linkerd-proxy.cluster.local";
