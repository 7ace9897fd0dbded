//! Identities without a cluster: the command `control` issues certificates, and a mesh file names the proxies.

use crate::control_process::Control;
use linkerd_tests::{Http1, Metrics, Proxy, SOON, Server, binary, eventually, identity};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use std::{fs, os::unix::fs::PermissionsExt};
use tokio::process::Command;

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
    let options = [
        "--write-trust-anchor",
        "@anchor.pem",
        "--insecure-any-identity",
    ];
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
    let private = fs::Permissions::from_mode(0o600);
    fs::set_permissions(files.path().join("key.pem"), private).unwrap();
    let options = [
        "--insecure-any-identity",
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
async fn options_that_make_no_sense_are_refused_with_their_fix() {
    for (options, problem) in [
        (&["--tls-name", "a.test"][..], "--trust-anchor"),
        (&["--trust-anchor", "a.pem"], "--trust-anchor-key"),
        (&["--write-trust-anchor", "/none/a.pem"], "/none/mesh.yaml"),
        (
            &["--write-trust-anchor", "a.pem", "--listen", "0.0.0.0:0"],
            "--insecure-any-identity",
        ),
        (
            &["--write-trust-anchor", "a.pem", "--listen", "[::]:0"],
            "--token-keys",
        ),
        (&["--token-keys", "keys.json"], "--trust-anchor"),
        (&["--insecure-any-identity"], "--trust-anchor"),
        (
            &[
                "--write-trust-anchor",
                "a.pem",
                "--token-keys",
                "/none/keys.json",
            ],
            "/none/keys.json: ",
        ),
        (
            &[
                "--write-trust-anchor",
                "a.pem",
                "--token-keys",
                "Cargo.toml",
            ],
            "Cargo.toml: it is no JSON Web Key Set",
        ),
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
