//! HTTP/1 that is carried over HTTP/2 to endpoints that ask for HTTP/2.

use http::{Response, StatusCode, Version};
use linkerd_control::{Endpoint, EndpointSet, Policy};
use linkerd_tests::{Mesh, Server, echo_upgraded, empty, reply, soon};

#[tokio::test]
async fn requests_are_carried_and_answers_restored() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    let endpoint = Endpoint::new(server.addr()).h2();
    mesh.endpoints("web").set(EndpointSet::new([endpoint]));
    let mut client = mesh.http1().await;
    for _ in 0..2 {
        let reply = soon(client.get("http://web/a")).await.unwrap();
        assert_eq!((reply.text(), reply.version), ("hello", Version::HTTP_11));
    }
    let seen = server.last();
    assert_eq!(seen.version, Version::HTTP_2);
    assert_eq!(seen.headers["l5d-orig-proto"], "HTTP/1.1");
}

#[tokio::test]
async fn requests_are_carried_to_an_endpoint_that_a_policy_forwards_to() {
    let server = Server::says("hello").await;
    let mesh = Mesh::start().await;
    mesh.policy("pod")
        .set(Policy::forward(Endpoint::new(server.addr()).h2()));
    let reply = mesh.get("http://pod/a").await;
    assert_eq!(reply.text(), "hello");
    assert_eq!(server.last().version, Version::HTTP_2);
}

#[tokio::test]
async fn an_upgrade_takes_an_http_1_connection_of_its_own() {
    let server = Server::start(|mut request| async move {
        if request.version() == Version::HTTP_2 {
            return reply("hello");
        }
        tokio::spawn(echo_upgraded(hyper::upgrade::on(&mut request)));
        let response = Response::builder()
            .status(StatusCode::SWITCHING_PROTOCOLS)
            .header("connection", "upgrade")
            .header("upgrade", "websocket");
        Ok(response.body(empty()).unwrap())
    })
    .await;
    let mesh = Mesh::start().await;
    mesh.service("web", []);
    let endpoint = Endpoint::new(server.addr()).h2();
    mesh.endpoints("web").set(EndpointSet::new([endpoint]));
    assert_eq!(mesh.get("http://web/").await.text(), "hello");
    let mut wire = mesh.wire().await;
    wire.send("GET / HTTP/1.1\r\nhost: web\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n")
        .await;
    assert!(wire.head().await.starts_with("HTTP/1.1 101"));
    wire.send("ping").await;
    assert_eq!(wire.bytes(4).await, b"ping");
}
