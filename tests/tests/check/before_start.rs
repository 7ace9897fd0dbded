//! Checks of a proxy's requirements before it starts.

use super::Checked;
use linkerd_control::{Authority, Controller, Server};
use linkerd_tests::{Builder, Exit, Proxy, identity, is_root, refused, with_identity};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, date_time_ymd};
use std::{
    fs,
    net::{SocketAddr, TcpListener},
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::Arc,
};
use tempfile::TempDir;

/// A control plane over TLS, and the files of a proxy of its mesh.
struct Mesh {
    authority: Arc<Authority>,
    control: Server,
    files: TempDir,
}

impl Mesh {
    async fn start() -> Self {
        let authority = Arc::new(Authority::generate("root").unwrap());
        let controller = Controller::new();
        controller.identity().authority(authority.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let names = [identity("control")];
        let control = controller.serve_tls(listener, &authority, &names);
        Self {
            control: control.unwrap(),
            authority,
            files: tempfile::tempdir().unwrap(),
        }
    }

    /// The environment of the proxy `web`.
    fn web(&self) -> Builder {
        self.trusting(self.authority.trust_anchors())
    }

    fn trusting(&self, anchors: &str) -> Builder {
        with_identity(self.control.addr(), anchors, "web", self.files.path())
    }
}

#[tokio::test]
async fn a_proxy_that_could_start_passes_all_checks() {
    let mesh = Mesh::start().await;
    let checked = Checked::run(mesh.web(), &[]).await;
    assert_eq!(checked.code, 0, "{:#}", checked.document);
    checked.assert_only_failures(&[]);
    let roles = "destination, policy, identity";
    for (section, name, detail) in [
        ("configuration", "environment", "valid, "),
        ("files", "trust anchors", "1 of 1, the last one ends in"),
        ("files", "token", "can be read"),
        ("files", "key and request", "the proxy makes its own"),
        ("listeners", "admin 127.0.0.1:0", "can be bound"),
        ("listeners", "inbound 127.0.0.1:0", "can be bound"),
        ("listeners", "outbound 127.0.0.1:0", "can be bound"),
        (
            "controllers",
            &format!("{roles}: connection"),
            "accepts connections",
        ),
        (
            "controllers",
            &format!("{roles}: TLS"),
            &format!("{} is verified", identity("control")),
        ),
        ("clock", "clock", "within the validity"),
    ] {
        checked.assert(section, name, "ok", detail, "");
    }
    checked.assert(
        "redirection",
        "redirection",
        "skipped",
        "OUTBOUND_EXPLICIT",
        "",
    );
}

#[tokio::test]
async fn the_text_has_a_line_for_each_check_and_no_secret() {
    let mesh = Mesh::start().await;
    let web = mesh
        .web()
        .env("LINKERD2_PROXY_IDENTITY_TOKEN_FILE", "/none/token");
    let Exit { status, output } = web.arguments(&["check"]).run().await;
    assert_eq!(status.code(), Some(1), "{output}");
    let lines: Vec<_> = output.lines().collect();
    let at = lines
        .iter()
        .position(|line| line.starts_with("  FAIL     token"));
    let at = at.unwrap_or_else(|| panic!("{output}"));
    assert!(lines[at].contains("/none/token: No such file"), "{output}");
    let fix = "           fix: let LINKERD2_PROXY_IDENTITY_TOKEN_FILE name a file";
    assert!(lines[at + 1].starts_with(fix), "{output}");
    assert!(lines.last().unwrap().ends_with(" 1 failed"), "{output}");
    assert!(
        lines.contains(&"files") && lines.contains(&"clock"),
        "{output}"
    );
    assert!(!output.contains("secret-of-the-test"), "{output}");
}

#[tokio::test]
async fn a_taken_port_names_the_process_that_has_it() {
    let mesh = Mesh::start().await;
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap();
    let web = mesh.web().env("LINKERD2_PROXY_INBOUND_LISTEN_ADDR", addr);
    let checked = Checked::run(web, &[]).await;
    assert_eq!(checked.code, 1);
    let name = format!("inbound {addr}");
    checked.assert_only_failures(&[&name]);
    let holder = format!("(process {})", std::process::id());
    checked.assert(
        "listeners",
        &name,
        "fail",
        &holder,
        "LINKERD2_PROXY_INBOUND_LISTEN_ADDR",
    );
}

#[tokio::test]
async fn the_ports_of_a_proxy_that_runs_already_are_a_warning() {
    let mesh = Mesh::start().await;
    let running = mesh.web().start().await;
    let (admin, outbound) = (running.admin.addr, running.outbound);
    let web = mesh
        .web()
        .env("LINKERD2_PROXY_ADMIN_LISTEN_ADDR", admin)
        .env("LINKERD2_PROXY_OUTBOUND_LISTEN_ADDRS", outbound);
    let checked = Checked::run(web, &[]).await;
    assert_eq!(checked.code, 0, "{:#}", checked.document);
    for name in [format!("admin {admin}"), format!("outbound {outbound}")] {
        let fix = format!("linkerd-proxy check --admin {admin}");
        checked.assert("listeners", &name, "warn", "runs already", &fix);
    }
}

#[tokio::test]
async fn a_token_of_another_user_cannot_be_read() {
    if !is_root() {
        return;
    }
    let mesh = Mesh::start().await;
    let token = mesh.files.path().join("token");
    let web = mesh.web();
    open_to_all(mesh.files.path());
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    // A copy: other users may not enter the build directory.
    let program = mesh.files.path().join("linkerd-proxy");
    fs::copy(linkerd_tests::binary(), &program).unwrap();
    let checked = Checked::run(web.program(program).uid(2102), &[]).await;
    assert_eq!(checked.code, 1);
    checked.assert_only_failures(&["token"]);
    checked.assert(
        "files",
        "token",
        "fail",
        "Permission denied",
        "readable by user 2102",
    );
}

fn open_to_all(directory: &Path) {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn one_of_two_identity_documents_is_a_failure_and_an_open_key_a_warning() {
    let mesh = Mesh::start().await;
    let directory = mesh.files.path().join("web");
    fs::create_dir(&directory).unwrap();
    let key = directory.join("key.p8");
    fs::write(&key, KeyPair::generate().unwrap().serialize_der()).unwrap();
    let checked = Checked::run(mesh.web(), &[]).await;
    assert_eq!(checked.code, 1);
    let detail = "csr.der is missing beside";
    checked.assert("files", "key and request", "fail", detail, "remove both");
    fs::write(directory.join("csr.der"), "a request").unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let checked = Checked::run(mesh.web(), &[]).await;
    assert_eq!(checked.code, 0, "{:#}", checked.document);
    checked.assert("files", "private key", "warn", "mode 644", "chmod 600");
}

#[tokio::test]
async fn a_controller_of_another_name_is_not_trusted() {
    let mesh = Mesh::start().await;
    let web = mesh
        .web()
        .env("LINKERD2_PROXY_POLICY_SVC_NAME", identity("policy"));
    let checked = Checked::run(web, &[]).await;
    assert_eq!(checked.code, 1);
    checked.assert_only_failures(&["policy: TLS"]);
    let detail = format!(
        "the server has shown {}, and {} is expected",
        identity("control"),
        identity("policy")
    );
    let fix = "LINKERD2_PROXY_POLICY_SVC_NAME";
    checked.assert("controllers", "policy: TLS", "fail", &detail, fix);
    let others = "destination, identity: TLS";
    checked.assert("controllers", others, "ok", "is verified", "");
}

#[tokio::test]
async fn a_controller_of_another_mesh_is_not_trusted() {
    let mesh = Mesh::start().await;
    let other = Authority::generate("other").unwrap();
    let checked = Checked::run(mesh.trusting(other.trust_anchors()), &[]).await;
    assert_eq!(checked.code, 1);
    let name = "destination, policy, identity: TLS";
    checked.assert_only_failures(&[name]);
    let detail = "the trust anchors do not verify the server's certificate";
    let fix = "LINKERD2_PROXY_IDENTITY_TRUST_ANCHORS";
    checked.assert("controllers", name, "fail", detail, fix);
}

#[tokio::test]
async fn trust_anchors_that_have_ended_are_named_with_their_time() {
    let mesh = Mesh::start().await;
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
        .distinguished_name
        .push(DnType::CommonName, "old root");
    (params.not_before, params.not_after) = (date_time_ymd(2001, 1, 1), date_time_ymd(2002, 1, 1));
    let key = KeyPair::generate().unwrap();
    let old = params.self_signed(&key).unwrap().pem();
    let checked = Checked::run(mesh.trusting(&old), &[]).await;
    assert_eq!(checked.code, 1);
    let detail = "CN=old root: the certificate has expired: it is valid from Mon, 01 Jan 2001";
    checked.assert(
        "files",
        "trust anchors",
        "fail",
        detail,
        "next root certificate",
    );
    let both = format!("{old}{}", mesh.authority.trust_anchors());
    let checked = Checked::run(mesh.trusting(&both), &[]).await;
    assert_eq!(checked.code, 0, "{:#}", checked.document);
    checked.assert("files", "trust anchors", "warn", "CN=old root", "remove it");
}

#[tokio::test]
async fn unreachable_controllers_are_told_apart() {
    let (refusing, _guard) = refused();
    let proxy = Proxy::builder(refusing)
        .env(
            "LINKERD2_PROXY_POLICY_SVC_ADDR",
            "no-such-name.invalid:8090",
        )
        .env("LINKERD2_PROXY_POLICY_SVC_NAME", identity("policy"));
    let checked = Checked::run(proxy, &[]).await;
    assert_eq!(checked.code, 1);
    checked.assert_only_failures(&["destination: connection", "policy: name"]);
    checked.assert(
        "controllers",
        "destination: connection",
        "fail",
        "Connection refused",
        "LINKERD2_PROXY_DESTINATION_SVC_ADDR",
    );
    checked.assert(
        "controllers",
        "policy: name",
        "fail",
        "no-such-name.invalid:8090 cannot be resolved",
        "/etc/resolv.conf",
    );
    checked.assert("clock", "clock", "skipped", "no controller", "");
}

#[tokio::test]
async fn a_controller_without_tls_is_told() {
    let mesh = Mesh::start().await;
    let plain = Controller::new().spawn().await.unwrap();
    let plain = SocketAddr::from(([0, 0, 0, 0], plain.addr().port()));
    let web = mesh.web().env("LINKERD2_PROXY_POLICY_SVC_ADDR", plain);
    let checked = Checked::run(web, &[]).await;
    assert_eq!(checked.code, 1, "{:#}", checked.document);
    let fix = "let LINKERD2_PROXY_POLICY_SVC_ADDR name the port";
    checked.assert(
        "controllers",
        "policy: TLS",
        "fail",
        "TLS handshake failed",
        fix,
    );
}

#[tokio::test]
async fn a_wrong_configuration_is_told_before_all_else() {
    let (addr, _guard) = refused();
    let proxy = Proxy::builder(addr).env("LINKERD2_PROXY_SHUTDOWN_GRACE_PERIOD", "5");
    let checked = Checked::run(proxy, &[]).await;
    assert_eq!(checked.code, 64);
    let detail = "LINKERD2_PROXY_SHUTDOWN_GRACE_PERIOD=\"5\" is not valid";
    checked.assert("configuration", "environment", "fail", detail, "5s");
    let detail = "they need a valid configuration";
    checked.assert("configuration", "other checks", "skipped", detail, "");
}
