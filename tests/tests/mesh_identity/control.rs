//! Identities without a cluster: the command `control` issues certificates, and a mesh file names the proxies.

use linkerd_tests::{
    Builder, Http1, Metrics, Proxy, SOON, Server, TokenIssuer, binary, eventually, identity, soon,
    with_identity,
};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use std::{fs, net::SocketAddr, path::PathBuf, process::Stdio};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

/// The controller as a process, and its files.
struct Control {
    addr: SocketAddr,
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    files: TempDir,
}

impl Control {
    /// Starts the controller with an empty mesh file and these options; `@name` is a file of the directory.
    async fn start(files: TempDir, options: &[&str]) -> Self {
        fs::write(files.path().join("mesh.yaml"), "services: []\n").unwrap();
        let named = |option: &&str| match option.strip_prefix('@') {
            Some(name) => files.path().join(name),
            None => PathBuf::from(option),
        };
        // Beyond loopback, the keys of tokens are needed, or the word of the operator.
        let has_keys = options.contains(&"--token-keys");
        let any_identity = (!has_keys).then_some("--insecure-any-identity");
        let mut child = Command::new(binary())
            .args(["control", "--listen", "0.0.0.0:0", "--tls-name"])
            .arg(identity("other"))
            .args(["--tls-name", &identity("control")])
            .args(["--mesh", "@mesh.yaml"].iter().chain(options).map(named))
            .args(any_identity)
            .env_clear()
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut control = Self {
            addr: ([127, 0, 0, 1], 0).into(),
            lines: BufReader::new(child.stdout.take().unwrap()).lines(),
            child,
            files,
        };
        let line = control.line("Controller listens on ").await;
        let (_, addr) = line.split_once(" on ").unwrap();
        let addr: SocketAddr = addr.split(' ').next().unwrap().parse().unwrap();
        control.addr.set_port(addr.port());
        control
    }

    /// Waits for a log line that contains the text.
    async fn line(&mut self, text: &str) -> String {
        let found = async {
            loop {
                let line = self.lines.next_line().await.unwrap().expect("it runs");
                if line.contains(text) {
                    return line;
                }
            }
        };
        soon(found).await
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.files.path().join(name), text).unwrap();
    }

    /// A proxy `name` that trusts the certificates in `anchors`.
    fn proxy(&self, name: &str, anchors: &str) -> Builder {
        let anchors = fs::read_to_string(self.files.path().join(anchors)).unwrap();
        with_identity(self.addr, &anchors, name, self.files.path())
            .env("LINKERD_PROXY_INBOUND_ADMIT_LOOPBACK", "0")
    }
}

fn mesh_file(server: &Server, api: &Proxy, caller: &str) -> String {
    let (addr, proxy) = (server.addr(), api.inbound.port());
    format!(
        "
services:
  - {{name: api, port: 80, identity: {identity}, proxyPort: {proxy}, endpoints: ['{addr}']}}
servers:
  - port: {port}
    authorizations: [{{name: callers, identities: [{caller}]}}]
",
        identity = identity("api"),
        port = addr.port(),
        caller = identity(caller),
    )
}

async fn status(proxy: &Proxy) -> u16 {
    let mut client = Http1::connect(proxy.outbound).await;
    client.get("http://api/").await.unwrap().status.as_u16()
}

fn encrypted(metrics: &Metrics) -> f64 {
    metrics.sum(
        "request_total",
        &[("direction", "outbound"), ("tls", "true")],
    )
}

#[tokio::test]
async fn proxies_of_a_mesh_file_talk_mutual_tls_and_callers_are_authorized() {
    let server = Server::says("hello").await;
    let files = tempfile::tempdir().unwrap();
    let options = ["--write-trust-anchor", "@anchor.pem"];
    let control = Control::start(files, &options).await;
    let start = async |name| control.proxy(name, "anchor.pem").start().await;
    let (web, guest, api) = tokio::join!(start("web"), start("guest"), start("api"));
    control.write("mesh.yaml", &mesh_file(&server, &api, "web"));
    eventually(SOON, "the service is known", || async {
        (status(&web).await == 200).then_some(())
    })
    .await;
    assert!(encrypted(&web.metrics().await) >= 1.0);
    let seen = server.seen();
    assert_eq!(seen[0].headers["l5d-client-id"], identity("web"));

    assert_eq!(status(&guest).await, 403);
    let line = api.wait_for_log("Request denied").await;
    assert!(line.contains(&identity("guest")), "{line}");
    control.write("mesh.yaml", &mesh_file(&server, &api, "guest"));
    eventually(SOON, "the guest is let in", || async {
        (status(&guest).await == 200).then_some(())
    })
    .await;
}

/// The certificate and the key of an authority, in PEM.
fn authority() -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key).unwrap().pem();
    (certificate, key.serialize_pem())
}

#[tokio::test]
async fn a_hangup_replaces_the_authority() {
    let (old, old_key) = authority();
    let (new, new_key) = authority();
    let files = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(files.path().join(name), text).unwrap();
    write("old.pem", &old);
    write("new.pem", &new);
    write("both.pem", &format!("{old}{new}"));
    write("anchors.pem", &old);
    write("key.pem", &old_key);
    let options = [
        "--trust-anchor",
        "@anchors.pem",
        "--trust-anchor-key",
        "@key.pem",
    ];
    let mut control = Control::start(files, &options).await;
    drop(control.proxy("web", "old.pem").start().await);

    let pid = control.child.id().unwrap().to_string();
    let hangup = async || {
        let sent = Command::new("kill").args(["-HUP", &pid]).status().await;
        assert!(sent.unwrap().success());
    };
    control.write("key.pem", &new_key);
    hangup().await;
    let line = control.line("the last good one stays").await;
    assert!(line.contains("belongs to none"), "{line}");
    drop(control.proxy("web", "old.pem").start().await);

    control.write("anchors.pem", &format!("{old}{new}"));
    hangup().await;
    control.line("as it was read again").await;
    // The proxy's certificate and the controller's are now from the new authority.
    drop(control.proxy("web", "new.pem").start().await);
    drop(control.proxy("web", "both.pem").start().await);
}

#[tokio::test]
async fn a_proxy_gets_a_certificate_for_the_name_of_its_token_alone() {
    let issuer = TokenIssuer::new();
    let files = tempfile::tempdir().unwrap();
    fs::write(files.path().join("keys.json"), issuer.keys()).unwrap();
    let options = [
        "--write-trust-anchor",
        "@anchor.pem",
        "--token-keys",
        "@keys.json",
    ];
    let mut control = Control::start(files, &options).await;
    let with_token = |control: &Control, name: &str, token: &str| {
        control.write(&format!("{name}.token"), token);
        let path = control.files.path().join(format!("{name}.token"));
        let path = path.display().to_string();
        let proxy = control.proxy(name, "anchor.pem");
        proxy.env("LINKERD2_PROXY_IDENTITY_TOKEN_FILE", path)
    };
    for subject in [
        identity("web"),
        "system:serviceaccount:default:web".to_owned(),
    ] {
        let proxy = with_token(&control, "web", &issuer.token(&subject));
        drop(proxy.start().await);
        let line = control.line("issued a certificate").await;
        assert!(
            line.contains(&identity("web")) && line.contains("serial"),
            "{line}"
        );
        assert!(line.contains("127.0.0.1:"), "{line}");
    }
    let others = issuer.token("system:serviceaccount:default:guest");
    for (name, token) in [
        ("web", &*others),
        ("web", "any text"),
        // The controller's own name, for which there is a token, too.
        ("control", &issuer.token(&identity("control"))),
    ] {
        let proxy = with_token(&control, name, token).start_unready().await;
        proxy.wait_for_log("PermissionDenied").await;
        control.line("refused a certificate").await;
        assert_eq!(proxy.admin.get("/ready").await.status, 503);
    }
}

#[tokio::test]
async fn any_token_is_enough_on_loopback_alone_and_an_anchor_is_never_replaced() {
    let files = tempfile::tempdir().unwrap();
    fs::write(files.path().join("mesh.yaml"), "services: []\n").unwrap();
    let path = |name: &str| files.path().join(name).display().to_string();
    let refused = async |listen: &str, anchor: &str| {
        let output = Command::new(binary())
            .args(["control", "--mesh", &path("mesh.yaml"), "--listen", listen])
            .args(["--write-trust-anchor", &path(anchor)])
            .output();
        let output = soon(output).await.unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let error = refused("0.0.0.0:0", "anchor.pem").await;
    assert!(
        error.contains("--token-keys") && error.contains("--insecure-any-identity"),
        "{error}"
    );
    assert!(!files.path().join("anchor.pem").exists());
    fs::write(files.path().join("other.pem"), "of a mesh that runs").unwrap();
    let error = refused("127.0.0.1:0", "other.pem").await;
    assert!(error.contains("remove the file"), "{error}");
    let kept = fs::read_to_string(files.path().join("other.pem")).unwrap();
    assert_eq!(kept, "of a mesh that runs");
    // A port that is taken.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let error = refused(&taken.local_addr().unwrap().to_string(), "anchor.pem").await;
    assert!(error.contains("cannot listen on"), "{error}");
    assert!(!files.path().join("anchor.pem").exists());
}

#[tokio::test]
async fn options_that_make_no_sense_are_refused_with_their_fix() {
    for (options, problem) in [
        (&["--tls-name", "a.test"][..], "--trust-anchor"),
        (&["--trust-anchor", "a.pem"], "--trust-anchor-key"),
        (&["--write-trust-anchor", "/none/a.pem"], "/none/a.pem: "),
        (
            &["--trust-anchor", "/none/a.pem", "--trust-anchor-key", "b"],
            "/none/a.pem: ",
        ),
        (
            &["--write-trust-anchor", "/dev/null", "--tls-name", "a b"],
            "write one such as control.test",
        ),
    ] {
        let output = Command::new(binary())
            .args(["control", "--mesh", "/none/mesh.yaml"])
            .args(options)
            .output()
            .await
            .unwrap();
        assert!(!output.status.success());
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(problem), "{options:?}: {error}");
    }
}
