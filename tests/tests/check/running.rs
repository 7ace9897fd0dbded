//! Checks of running proxies.

use super::Checked;
use linkerd_control::{Authority, EndpointSet, Policy};
use linkerd_tests::{
    Admin, Http1, Meshed, Proxy, SOON, Server, eventually, refused, with_identity,
};
use std::net::SocketAddr;

async fn check(admin: Admin) -> Checked {
    // The environment of the command does not matter.
    let unused = SocketAddr::from(([127, 0, 0, 1], 1));
    let admin = admin.addr.to_string();
    Checked::run(Proxy::builder(unused), &["--admin", &admin]).await
}

#[tokio::test]
async fn a_healthy_proxy_passes_all_checks() {
    let server = Server::says("hello").await;
    let mesh = Meshed::start(|web| web, |api| api).await;
    mesh.serve_api(server.addr(), |endpoint| endpoint);
    let mut client = mesh.http1().await;
    assert_eq!(client.get("http://api/").await.unwrap().status, 200);
    let checked = check(mesh.web.admin).await;
    assert_eq!(checked.code, 0, "{:#}", checked.document);
    checked.assert_only_failures(&[]);
    let outbound = mesh.web.outbound.to_string();
    for (section, name, detail) in [
        ("proxy", "live", ""),
        ("proxy", "version", "runs for"),
        ("proxy", "ready", "the proxy is ready"),
        ("environment", "environment", "valid"),
        ("identity", "certificate", "from identity controller"),
        (
            "control plane",
            "destination",
            "1 of 1 addresses are connected",
        ),
        ("control plane", "policy", "1 of 1 addresses are connected"),
        (
            "control plane",
            "identity",
            "1 of 1 addresses are connected",
        ),
        ("control plane", "streams: destinations", "1 of 1"),
        ("listeners", "outbound", &*outbound),
        ("failures", "failures", "none in the last 5 min"),
        ("losses", "log lines", "none dropped"),
    ] {
        checked.assert(section, name, "ok", detail, "");
    }
}

#[tokio::test]
async fn a_proxy_without_a_certificate_names_what_it_waits_for() {
    let authority = Authority::generate("root").unwrap();
    let files = tempfile::tempdir().unwrap();
    let (refusing, _guard) = refused();
    let web = with_identity(refusing, authority.trust_anchors(), "web", files.path());
    let web = web.start_unready().await;
    let admin = web.admin;
    eventually(SOON, "the refusals are seen", || async move {
        let state = admin.state().await;
        let controllers = state["controllers"].as_array().unwrap();
        let mut endpoints = controllers.iter().map(|it| &it["balancer"]["endpoints"][0]);
        endpoints
            .all(|endpoint| endpoint["last_error"].is_string())
            .then_some(())
    })
    .await;
    let checked = check(admin).await;
    assert_eq!(checked.code, 1);
    checked.assert_only_failures(&["ready", "certificate", "destination", "policy", "identity"]);
    checked.assert(
        "proxy",
        "ready",
        "fail",
        "waits for the first certificate from the identity controller",
        "identity controller 0.0.0.0:",
    );
    let fix = "is the identity controller running";
    checked.assert("identity", "certificate", "fail", "has none from", fix);
    let detail = "Connection refused";
    checked.assert(
        "control plane",
        "identity",
        "fail",
        detail,
        "is the controller running",
    );
}

#[tokio::test]
async fn recent_failures_are_told_with_their_hints() {
    let controller = linkerd_control::Controller::new();
    let control = controller.spawn().await.unwrap();
    let (refusing, _guard) = refused();
    controller.policy("web:80").set(Policy::balance("web", 80));
    let endpoints = EndpointSet::new([linkerd_control::Endpoint::new(refusing)]);
    let name = "web.default.svc.cluster.local:80";
    controller.destination(name).set(endpoints);
    let proxy = Proxy::builder(control.addr())
        .env("LINKERD2_PROXY_OUTBOUND_FAILFAST_TIMEOUT", "100ms")
        .start()
        .await;
    let mut client = Http1::connect(proxy.outbound).await;
    let answer = client.get("http://web/").await.unwrap();
    assert!(answer.status.is_server_error());
    let checked = check(proxy.admin).await;
    assert_eq!(checked.code, 0, "{:#}", checked.document);
    let detail = "1 in the last 5 min; the last one: ";
    let hint = "Is the application listening on this port";
    checked.assert("failures", "connect_refused", "warn", detail, hint);
}

#[tokio::test]
async fn nothing_at_the_address_is_a_failure_with_a_fix() {
    let (addr, _guard) = refused();
    let checked = check(Admin { addr }).await;
    assert_eq!(checked.code, 1);
    checked.assert_only_failures(&["live"]);
    let detail = "does not answer at";
    checked.assert(
        "proxy",
        "live",
        "fail",
        detail,
        "let --admin name its admin server",
    );
}

#[tokio::test]
async fn a_server_that_is_no_proxy_is_no_success() {
    let server = Server::says("hello").await;
    let checked = check(Admin {
        addr: server.addr(),
    })
    .await;
    assert_eq!(checked.code, 1, "{:#}", checked.document);
    checked.assert("state", "/state", "fail", "no JSON", "linkerd-proxy");
}
