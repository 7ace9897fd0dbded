//! Two pods with redirection, each behind its proxy: what crosses the link between them is TLS.

#![allow(clippy::unwrap_used, missing_docs)]

use futures::StreamExt;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use linkerd_control::Protocol;
use linkerd_tests::{
    Body, Fail, Grpc, Http1, Http2, Message, Server, Tcp, Wire, echo, echo_upgraded, empty,
    grpc_handler, identity,
    netns::{Capture, Pods, SERVERS, SERVICE, isolated},
    reply, soon,
};
use std::net::SocketAddr;

/// The service of other bytes.
const OPAQUE: SocketAddr = SocketAddr::new(SERVICE.ip(), 6379);
/// The service of gRPC.
const GRPC: SocketAddr = SocketAddr::new(SERVICE.ip(), 50051);
/// In all that clients and servers say.
const SECRET: &str = "a-secret-of-the-test";

/// Switches to an echo if that is asked for, and tells the identity of the client otherwise.
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
    isolated("all_protocols_cross_the_link_as_tls", async {
        let capture = Capture::start();
        let pods = Pods::start().await;
        let at: SocketAddr = (SERVERS, 0).into();
        let (http, grpc, bytes) = pods
            .servers
            .enter(async {
                let http = Server::builder().at(at).start(serve).await;
                let grpc = Server::builder().at(at).start(grpc_handler).await;
                (http, grpc, Tcp::start_at(at, echo).await)
            })
            .await;
        pods.serve(SERVICE, http.addr(), Protocol::Detect);
        pods.serve(GRPC, grpc.addr(), Protocol::Grpc);
        pods.serve(OPAQUE, bytes.addr(), Protocol::Opaque);
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

        let captured = capture.finish();
        captured.is_tls();
        assert!(!captured.contains(SECRET));
        // Those of HTTP and its upgrade, of gRPC, and of other bytes.
        assert!(captured.connections_to(SERVERS) >= 4, "{captured:?}");
        let tls = [("direction", "outbound"), ("tls", "true")];
        assert!(pods.web.metrics().await.sum("request_total", &tls) >= 8.0);
        let received = pods.servers.enter(pods.api.metrics()).await;
        let web = identity("web");
        let inbound = [("direction", "inbound"), ("client_id", &*web)];
        assert!(received.sum("request_total", &inbound) >= 8.0);
    });
}
