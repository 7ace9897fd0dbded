//! Bytes on the link between two meshed pods: only TLS.

use futures::StreamExt;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use linkerd_control::Protocol;
use linkerd_tests::{
    Body, Fail, Grpc, Http1, Http2, Message, Server, Tcp, Wire, echo, echo_upgraded, empty,
    grpc_handler, identity,
    netns::{Capture, Cluster, SERVICE, isolated},
    reply, soon,
};
use std::net::SocketAddr;

/// The service of opaque bytes.
const OPAQUE: SocketAddr = SocketAddr::new(SERVICE.ip(), 6379);
/// The service of gRPC.
const GRPC: SocketAddr = SocketAddr::new(SERVICE.ip(), 50051);
/// A text in all messages of clients and servers.
const SECRET: &str = "a-secret-of-the-test";

/// Upgrades to an echo if requested, and otherwise answers with the identity of the client.
async fn serve(mut request: Request<Incoming>) -> Result<Response<Body>, Fail> {
    let Some(protocol) = request.headers().get("upgrade").cloned() else {
        let client = &request.headers()["l5d-client-id"];
        return reply(format!("{SECRET} {}", client.to_str().unwrap()));
    };
    tokio::spawn(echo_upgraded(hyper::upgrade::on(&mut request)));
    let response = Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header("connection", "upgrade")
        .header("upgrade", protocol);
    Ok(response.body(empty()).unwrap())
}

#[test]
fn all_protocols_cross_the_link_as_tls() {
    isolated("privacy::all_protocols_cross_the_link_as_tls", async {
        let capture = Capture::start();
        let cluster = Cluster::start().await;
        let (web, api) = (cluster.pod("web").await, cluster.pod("api").await);
        let (http, grpc, bytes) = api
            .enter(async {
                let http = Server::builder().at(api.at(8080)).start(serve).await;
                let grpc = Server::builder().at(api.at(9090)).start(grpc_handler).await;
                (http, grpc, Tcp::start_at(api.at(7000), echo).await)
            })
            .await;
        let endpoint = |server: SocketAddr| [api.endpoint(server.port())];
        cluster.service(SERVICE, Protocol::Detect, endpoint(http.addr()));
        cluster.service(GRPC, Protocol::Grpc, endpoint(grpc.addr()));
        let direct = api
            .endpoint(bytes.addr().port())
            .opaque()
            .inbound_port(4143);
        cluster.service(OPAQUE, Protocol::Opaque, [direct]);
        web.enter(talk()).await;

        let captured = capture.finish();
        captured.is_tls();
        assert!(!captured.contains(SECRET));
        // The connections of HTTP and its upgrade, of gRPC, and of opaque bytes.
        assert!(captured.connections_to(api.addr) >= 4, "{captured:?}");
        let tls = [("direction", "outbound"), ("tls", "true")];
        let sent = web.enter(web.proxy().metrics()).await;
        assert!(sent.sum("request_total", &tls) >= 8.0);
        let received = api.enter(api.proxy().metrics()).await;
        let web = identity("web");
        let inbound = [("direction", "inbound"), ("client_id", &*web)];
        assert!(received.sum("request_total", &inbound) >= 8.0);
    });
}

/// Runs the clients.
async fn talk() {
    let expected = format!("{SECRET} {}", identity("web"));
    let mut http1 = Http1::connect(SERVICE).await.host_form();
    let http2 = Http2::connect(SERVICE).await;
    for _ in 0..3 {
        let uri = format!("http://api.test/{SECRET}");
        assert_eq!(soon(http1.get(&uri)).await.unwrap().text(), expected);
        assert_eq!(soon(http2.get(&uri)).await.unwrap().text(), expected);
    }

    let client = Grpc::new(Http2::connect(GRPC).await, "api.test");
    let answer = soon(client.unary(Message::new(SECRET, 1))).await.unwrap();
    assert_eq!(answer.text, SECRET);
    let stream = soon(client.stream(Message::new(SECRET, 5))).await.unwrap();
    assert_eq!(soon(stream.collect::<Vec<_>>()).await.len(), 5);

    let mut socket = Wire::connect(SERVICE).await;
    let upgrade = "GET /chat HTTP/1.1\r\nhost: api.test\r\nconnection: upgrade\r\n\
                   upgrade: websocket\r\n\r\n";
    socket.send(upgrade).await;
    assert!(socket.head().await.starts_with("HTTP/1.1 101"));
    let mut opaque = Wire::connect(OPAQUE).await;
    for wire in [&mut socket, &mut opaque] {
        wire.send(SECRET).await;
        assert_eq!(wire.bytes(SECRET.len()).await, SECRET.as_bytes());
    }
    opaque.finish().await;
    assert_eq!(opaque.rest().await, "");
}
