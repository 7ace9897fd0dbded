//! Two proxies of a mesh: mutual TLS between them, and with their control plane.

#![allow(clippy::unwrap_used, missing_docs)]

use linkerd_tests::{Meshed, Server, identity};

#[tokio::test]
async fn requests_cross_with_the_identity_of_the_client() {
    let server = Server::says("hello").await;
    let mesh = Meshed::start(|web| web, |api| api).await;
    mesh.serve_api(server.addr(), |endpoint| endpoint);
    let reply = mesh.http1().await.get("http://api/").await.unwrap();
    assert_eq!(reply.text(), "hello");
    let seen = server.seen();
    assert_eq!(seen[0].headers["l5d-client-id"], identity("web"));

    let reply = mesh.http2().await.get("http://api/").await.unwrap();
    assert_eq!(reply.status, 200);

    let sent = mesh.web.metrics().await;
    let labels = [("direction", "outbound"), ("tls", "true")];
    assert!(sent.sum("request_total", &labels) >= 2.0);
    let server_id = [("server_id", &*identity("api"))];
    assert!(sent.sum("tcp_open_total", &server_id) >= 2.0);
    let received = mesh.api.metrics().await;
    let web = identity("web");
    let labels = [("direction", "inbound"), ("client_id", &*web)];
    assert_eq!(received.sum("request_total", &labels), 2.0);
    let direct = [("session_protocol", "http/1"), ("client_id", &*web)];
    let family = "inbound_tcp_transport_header_connections_total";
    assert_eq!(received.sum(family, &direct), 1.0);
}
