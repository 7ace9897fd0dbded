//! Clients of the mesh that are connected, and trusted no more.

use http_body_util::BodyExt;
use linkerd_control::{Authority, Endpoint, EndpointSet, Policy};
use linkerd_tests::{
    Load, Meshed, Proxy, SOON, Server, Wire, eventually, from_channel, get, identity,
};
use std::time::Duration;
use tokio::sync::mpsc;

const MIN_REFRESH: &str = "LINKERD2_PROXY_IDENTITY_MIN_REFRESH";
const REASON: [(&str, &str); 1] = [("reason", "client_untrusted")];

/// A server whose responses begin with `hello`, and do not end.
async fn endless() -> Server {
    Server::start(|_| async {
        let (send, body) = mpsc::channel(1);
        tokio::spawn(async move {
            let _ = send.send("hello").await;
            send.closed().await;
        });
        Ok(http::Response::new(from_channel(body)))
    })
    .await
}

/// Waits until the proxy of the server has no connection of a client with a certificate.
async fn until_alone(api: &Proxy) {
    let meshed = [("direction", "inbound"), ("peer", "src"), ("tls", "true")];
    eventually(SOON, "the connections have ended", || async {
        let metrics = api.metrics().await;
        let opened = metrics.sum("tcp_open_total", &meshed);
        (opened > 0.0 && metrics.sum("tcp_open_connections", &meshed) == 0.0).then_some(())
    })
    .await;
}

/// Begins a response through the client's proxy that does not end by itself.
async fn stream(web: &Proxy) -> http::Response<hyper::body::Incoming> {
    let mut client = linkerd_tests::Http1::connect(web.outbound).await;
    let mut response = client.start(get("http://api/")).await.unwrap();
    assert_eq!(response.status(), 200);
    response.body_mut().frame().await.unwrap().unwrap();
    response
}

#[tokio::test]
async fn connections_of_a_removed_authority_end() {
    let server = endless().await;
    let mesh = Meshed::start_with_anchors_file_of_api(|api| api).await;
    mesh.serve_api(server.addr(), |endpoint| endpoint);
    let mut streaming = stream(&mesh.web).await;
    let new = Authority::generate("new").unwrap();
    mesh.trust(&[&new]);
    let ended = tokio::time::timeout(SOON, streaming.body_mut().frame()).await;
    assert!(!matches!(ended.unwrap(), Some(Ok(_))));
    until_alone(&mesh.api).await;
    mesh.api
        .metric_reaches("proxy_failures_total", &REASON, 1.0)
        .await;
    let state = mesh.api.admin.state().await;
    let peers = &state["workers"][0]["inbound"]["peers"];
    assert_eq!(peers["ended"], 1, "{peers}");
}

#[tokio::test]
async fn connections_that_are_not_http_end_with_the_trust_in_their_client() {
    let server = linkerd_tests::Tcp::echo().await;
    let mesh = Meshed::start_with_anchors_file_of_api(|api| api).await;
    mesh.serve_api(server.addr(), |endpoint| endpoint);
    mesh.controller
        .policy("api:80")
        .set(Policy::balance("api", 80).opaque());
    let port = mesh.controller.server(server.addr().port());
    let all = linkerd_control::Authorization::all("all");
    port.set(
        linkerd_control::ServerPolicy::new("api")
            .opaque()
            .authorize(all)
            .build(),
    );
    let mut wire = Wire::tunnel(mesh.web.outbound, "api:80").await;
    wire.send("hello").await;
    wire.until(b"hello").await;
    mesh.trust(&[&Authority::generate("new").unwrap()]);
    assert!(wire.closes_within(SOON).await);
}

#[tokio::test]
async fn connections_of_a_client_whose_certificate_has_expired_end() {
    let server = endless().await;
    let mesh = Meshed::start(|web| web, |api| api).await;
    mesh.serve_api(server.addr(), |endpoint| endpoint);
    mesh.controller.identity().lifetime(Duration::from_secs(5));
    let late = mesh.proxy("late").env(MIN_REFRESH, "1h").start().await;
    let mut streaming = stream(&late).await;
    let ended = tokio::time::timeout(SOON, streaming.body_mut().frame()).await;
    assert!(!matches!(ended.unwrap(), Some(Ok(_))));
    until_alone(&mesh.api).await;
}

/// A proxy of the mesh with its trust anchors in a file of its own.
async fn with_own_anchors(mesh: &Meshed, file: &std::path::Path) -> Proxy {
    std::fs::write(file, mesh.authority.trust_anchors()).unwrap();
    let late = mesh.proxy("late");
    let late = late.without("LINKERD2_PROXY_IDENTITY_TRUST_ANCHORS");
    let late = late.env("LINKERD_PROXY_IDENTITY_TRUST_ANCHORS_FILE", file.display());
    late.start().await
}

#[tokio::test]
async fn connections_to_endpoints_of_a_removed_authority_end() {
    let server = endless().await;
    let mesh = Meshed::start(|web| web, |api| api).await;
    mesh.serve_api(server.addr(), |endpoint| endpoint);
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("anchors.pem");
    let late = with_own_anchors(&mesh, &file).await;
    let mut streaming = stream(&late).await;
    let new = Authority::generate("new").unwrap();
    std::fs::write(&file, new.trust_anchors()).unwrap();
    let ended = tokio::time::timeout(SOON, streaming.body_mut().frame()).await;
    assert!(!matches!(ended.unwrap(), Some(Ok(_))));
    until_alone(&mesh.api).await;
}

#[tokio::test]
async fn relays_to_endpoints_of_a_removed_authority_end() {
    let server = linkerd_tests::Tcp::echo().await;
    let mesh = Meshed::start(|web| web, |api| api).await;
    mesh.serve_api(server.addr(), |endpoint| endpoint);
    let opaque = Policy::balance("api", 80).opaque();
    mesh.controller.policy("api:80").set(opaque);
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("anchors.pem");
    let late = with_own_anchors(&mesh, &file).await;
    let mut wire = Wire::tunnel(late.outbound, "api:80").await;
    wire.send("hello").await;
    wire.until(b"hello").await;
    let new = Authority::generate("new").unwrap();
    std::fs::write(&file, new.trust_anchors()).unwrap();
    assert!(wire.closes_within(SOON).await);
}

#[tokio::test]
async fn no_request_fails_when_connections_end_with_the_certificates_of_endpoints() {
    let server = Server::says("hello").await;
    let mesh = Meshed::start(|web| web, |api| api).await;
    mesh.serve_api(server.addr(), |endpoint| endpoint);
    mesh.controller.identity().lifetime(Duration::from_secs(3));
    let back = mesh.proxy("back").env(MIN_REFRESH, "100ms").start().await;
    let endpoint = Endpoint::new(server.addr())
        .identity(identity("back"))
        .inbound_port(back.inbound.port());
    let name = "api.default.svc.cluster.local:80";
    mesh.controller
        .destination(name)
        .set(EndpointSet::new([endpoint]));
    let load = Load::through(&mesh.web, 4, Duration::from_millis(1), "http://api/");
    let meshed = [("direction", "outbound"), ("peer", "dst"), ("tls", "true")];
    eventually(2 * SOON, "other connections", || async {
        let opened = mesh.web.metrics().await.sum("tcp_open_total", &meshed);
        (opened >= 3.0).then_some(())
    })
    .await;
    load.more(100).await;
    load.stop().await.assert_clean();
}

#[tokio::test]
async fn no_request_fails_when_connections_end_with_their_certificates() {
    let server = Server::says("hello").await;
    let mesh = Meshed::start(|web| web, |api| api).await;
    mesh.serve_api(server.addr(), |endpoint| endpoint);
    mesh.controller.identity().lifetime(Duration::from_secs(3));
    let fresh = mesh.proxy("fresh").env(MIN_REFRESH, "100ms").start().await;
    let load = Load::through(&fresh, 4, Duration::from_millis(1), "http://api/");
    eventually(2 * SOON, "connections have ended", || async {
        let state = mesh.api.admin.state().await;
        let ended = state["workers"][0]["inbound"]["peers"]["ended"].as_u64();
        (ended >= Some(2)).then_some(())
    })
    .await;
    load.more(100).await;
    load.stop().await.assert_clean();
}
