//! Trust anchors in a file, which change while the proxy runs.

use linkerd_control::Authority;
use linkerd_tests::{Meshed, Proxy, SOON, Server, eventually, with_identity};
use serde_json::Value;
use std::sync::Arc;

/// The trust anchors of a proxy, as `/state` shows them.
pub async fn anchors(proxy: &Proxy) -> Value {
    proxy.admin.state().await["identity"]["trust_anchors"].clone()
}

/// Waits until a proxy trusts this many authorities.
pub async fn trusts(proxy: &Proxy, number: usize) {
    let what = format!("{number} trust anchors");
    eventually(SOON, &what, || async {
        (anchors(proxy).await["number"] == number).then_some(())
    })
    .await;
}

async fn status(mesh: &Meshed) -> u16 {
    let reply = mesh.http1().await.get("http://api/").await;
    reply.unwrap().status.as_u16()
}

#[tokio::test]
async fn an_authority_that_is_removed_is_trusted_no_more() {
    let server = Server::says("hello").await;
    let mesh = Meshed::start_with_anchors_file(each_request_connects, |api| api).await;
    mesh.serve_api(server.addr(), |endpoint| endpoint);
    assert_eq!(status(&mesh).await, 200);
    // Both certificates are from the removed authority, and TLS sessions of that authority are not resumed.
    let new = Authority::generate("new").unwrap();
    mesh.trust(&[&new]);
    for proxy in [&mesh.web, &mesh.api] {
        let line = proxy.wait_for_log("do not trust the certificate").await;
        assert!(line.contains("WARN"), "{line}");
    }
    assert_eq!(status(&mesh).await, 502);
    let opened = mesh.api.metrics().await;
    assert!(opened.sum("control_identity_cert_refreshes_total", &[]) >= 1.0);

    // The proxies recover as soon as the new authority issues certificates: they ask for them at once.
    let new = Arc::new(new);
    mesh.sign_with(&new);
    eventually(SOON, "certificates of the new authority", || async {
        (status(&mesh).await == 200).then_some(())
    })
    .await;
}

/// Keeps no idle connection to an endpoint, so that each request makes a new handshake.
pub fn each_request_connects(proxy: linkerd_tests::Builder) -> linkerd_tests::Builder {
    renewed_soon(proxy).env("LINKERD2_PROXY_OUTBOUND_MAX_IDLE_CONNS_PER_ENDPOINT", 0)
}

/// Makes the proxy renew certificates several times a second.
pub fn renewed_soon(proxy: linkerd_tests::Builder) -> linkerd_tests::Builder {
    proxy
        .env("LINKERD2_PROXY_IDENTITY_MIN_REFRESH", "100ms")
        .env("LINKERD2_PROXY_IDENTITY_MAX_REFRESH", "200ms")
}

#[tokio::test]
async fn a_bad_file_keeps_the_last_anchors_and_is_told_once() {
    let server = Server::says("hello").await;
    let mesh = Meshed::start_with_anchors_file(each_request_connects, |api| api).await;
    mesh.serve_api(server.addr(), |endpoint| endpoint);
    mesh.write_anchors_file("-----BEGIN CERTIFICATE-----\nhalf of it");
    let line = mesh
        .web
        .wait_for_log("The trust anchors cannot be read again")
        .await;
    assert!(
        line.contains("anchors.pem") && line.contains("not PEM"),
        "{line}"
    );
    let renewed = [("result", "ok")];
    let family = "control_identity_cert_refreshes_total";
    let before = mesh.web.metrics().await.sum(family, &renewed);
    mesh.web
        .metric_reaches(family, &renewed, before + 3.0)
        .await;
    assert_eq!(mesh.web.log().matches("cannot be read again").count(), 1);
    let state = anchors(&mesh.web).await;
    assert_eq!(state["number"], 1);
    assert!(
        state["last_error"].as_str().unwrap().contains("not PEM"),
        "{state}"
    );
    assert_eq!(status(&mesh).await, 200);

    let other = Authority::generate("other").unwrap();
    mesh.trust(&[&mesh.authority, &other]);
    trusts(&mesh.web, 2).await;
    assert!(anchors(&mesh.web).await["last_error"].is_null());
}

#[tokio::test]
async fn a_missing_file_and_two_sources_are_errors_at_the_start() {
    let files = tempfile::tempdir().unwrap();
    let file = "LINKERD_PROXY_IDENTITY_TRUST_ANCHORS_FILE";
    let proxy = || with_identity(([127, 0, 0, 1], 1).into(), "anchors", "web", files.path());
    let both = proxy().env(file, "/none/anchors.pem").run().await;
    assert_eq!(both.status.code(), Some(64));
    assert!(
        both.output.contains("exclude each other"),
        "{}",
        both.output
    );
    let missing = proxy().without("LINKERD2_PROXY_IDENTITY_TRUST_ANCHORS");
    let neither = missing.clone().run().await;
    assert_eq!(neither.status.code(), Some(64));
    assert!(neither.output.contains(file), "{}", neither.output);
    let exit = missing.env(file, "/none/anchors.pem").run().await;
    assert_eq!(exit.status.code(), Some(1));
    let problem = "Failed to read trust anchors: /none/anchors.pem: No such file";
    assert!(exit.output.contains(problem), "{}", exit.output);
}
