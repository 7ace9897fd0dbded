//! Upgraded connections and tunnels.

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use linkerd_control::Policy;
use linkerd_tests::{
    Body, Fail, Http1, Http2, Mesh, Server, Tcp, Wire, echo_upgraded, empty, soon,
};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

async fn upgrade(mut request: Request<Incoming>) -> Result<Response<Body>, Fail> {
    let protocol = request.headers().get("upgrade").cloned();
    let Some(protocol) = protocol.filter(|_| request.uri().path() == "/chat") else {
        return Ok(Response::builder().status(400).body(empty()).unwrap());
    };
    tokio::spawn(echo_upgraded(hyper::upgrade::on(&mut request)));
    let response = Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header("connection", "upgrade")
        .header("upgrade", protocol);
    Ok(response.body(empty()).unwrap())
}

const UPGRADE: &str = "host: web\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
    sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n";

#[tokio::test]
async fn a_websocket_talks_both_ways() {
    let server = Server::start(upgrade).await;
    let mesh = Mesh::with(&server).await;
    let mut wire = mesh.wire().await;
    wire.send(format!("GET /chat HTTP/1.1\r\n{UPGRADE}")).await;
    let head = wire.head().await;
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    assert!(head.to_lowercase().contains("upgrade: websocket"), "{head}");
    for text in ["ping", "pong"] {
        wire.send(text).await;
        assert_eq!(wire.bytes(4).await, text.as_bytes());
    }
    wire.finish().await;
    assert_eq!(wire.rest().await, "");
}

#[tokio::test]
async fn what_a_websocket_sends_with_its_handshake_is_not_lost() {
    let server = Server::start(upgrade).await;
    let mesh = Mesh::with(&server).await;
    let mut wire = mesh.wire().await;
    wire.send(format!("GET /chat HTTP/1.1\r\n{UPGRADE}early"))
        .await;
    assert!(wire.head().await.starts_with("HTTP/1.1 101"));
    assert_eq!(wire.bytes(5).await, b"early");
}

#[tokio::test]
async fn a_refused_upgrade_is_an_ordinary_answer() {
    let server = Server::start(upgrade).await;
    let mesh = Mesh::with(&server).await;
    let mut wire = mesh.wire().await;
    wire.send(format!("GET /other HTTP/1.1\r\n{UPGRADE}")).await;
    assert!(wire.head().await.starts_with("HTTP/1.1 400"));
}

#[tokio::test]
async fn an_offer_of_h2c_is_served_as_http_1() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    let mut wire = mesh.wire().await;
    wire.send(
        "GET / HTTP/1.1\r\nhost: web\r\nconnection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\n\
         http2-settings: AAMAAABkAAQAAP__\r\n\r\n",
    )
    .await;
    let (head, body) = wire.response().await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert_eq!(body, "hello");
    let seen = server.last().headers;
    assert!(
        !seen.contains_key("upgrade") && !seen.contains_key("http2-settings"),
        "{seen:?}"
    );
}

#[tokio::test]
async fn an_offer_of_h2c_is_answered_without_headers_of_the_connection() {
    let server = Server::start(|_| async {
        let response = Response::builder().header("keep-alive", "timeout=1");
        Ok(response.body(empty()).unwrap())
    })
    .await;
    let mesh = Mesh::with(&server).await;
    let mut wire = mesh.wire().await;
    wire.send("GET / HTTP/1.1\r\nhost: web\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n")
        .await;
    let head = wire.head().await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(!head.contains("keep-alive"), "{head}");
}

#[tokio::test]
async fn a_tunnel_carries_http_1() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    let wire = Wire::tunnel(mesh.proxy.outbound, "web:80").await;
    let mut client = Http1::over(wire.into_socket()).await.host_form();
    for _ in 0..2 {
        let reply = soon(client.get("http://anything/a")).await.unwrap();
        assert_eq!(reply.text(), "hello");
    }
    // The proxy counts it as HTTP, too.
    mesh.proxy
        .metric_reaches("request_total", &[("direction", "outbound")], 2.0)
        .await;
}

#[tokio::test]
async fn a_tunnel_carries_http_2() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    let wire = Wire::tunnel(mesh.proxy.outbound, "web:80").await;
    let client = Http2::over(wire.into_socket()).await;
    let reply = soon(client.get("http://web/")).await.unwrap();
    assert_eq!(reply.text(), "hello");
    assert_eq!(server.last().version, http::Version::HTTP_2);
}

#[tokio::test]
async fn a_tunnel_carries_any_bytes() {
    let server = Tcp::echo().await;
    let mesh = Mesh::start().await;
    mesh.service("db", [server.addr()]);
    let mut wire = Wire::tunnel(mesh.proxy.outbound, "db:80").await;
    wire.send(b"\x00\x01 not HTTP \xff\n").await;
    assert_eq!(wire.bytes(14).await, b"\x00\x01 not HTTP \xff\n");
    wire.finish().await;
    assert_eq!(
        wire.rest().await,
        "",
        "half-closing passes, and the end comes back"
    );
}

#[tokio::test]
async fn a_server_that_speaks_first_is_heard_through_a_tunnel() {
    use tokio::io::AsyncWriteExt;
    let server = Tcp::start(|mut socket| async move {
        let _ = socket.write_all(b"220 ready\r\n").await;
        linkerd_tests::echo(socket).await;
    })
    .await;
    let mesh = Mesh::start().await;
    mesh.service("mail", [server.addr()]);
    mesh.policy("mail")
        .set(Policy::balance("mail", 80).opaque());
    let mut wire = Wire::tunnel(mesh.proxy.outbound, "mail:80").await;
    assert_eq!(wire.until(b"\n").await, "220 ready\r\n");
    wire.send("QUIT\r\n").await;
    assert_eq!(wire.until(b"\n").await, "QUIT\r\n");
}

#[tokio::test]
async fn a_server_that_speaks_first_is_heard_after_the_detect_timeout() {
    use tokio::io::AsyncWriteExt;
    let server = Tcp::start(|mut socket| async move {
        let _ = socket.write_all(b"220 ready\r\n").await;
        linkerd_tests::echo(socket).await;
    })
    .await;
    let mesh = Mesh::builder()
        .env("LINKERD2_PROXY_OUTBOUND_DETECT_TIMEOUT", "200ms")
        .start()
        .await;
    mesh.service("mail", [server.addr()]);
    let mut wire = Wire::tunnel(mesh.proxy.outbound, "mail:80").await;
    assert_eq!(wire.until(b"\n").await, "220 ready\r\n");
}

#[tokio::test]
async fn a_tunnel_to_nowhere_is_refused() {
    let mesh = Mesh::start().await;
    let mut wire = mesh.wire().await;
    wire.send("CONNECT nowhere:80 HTTP/1.1\r\nhost: nowhere:80\r\n\r\n")
        .await;
    let head = wire.head().await;
    assert!(head.starts_with("HTTP/1.1 502"), "{head}");
}

#[tokio::test]
async fn a_tunnel_to_a_server_that_refuses_is_closed() {
    let (addr, _refused) = linkerd_tests::refused();
    let mesh = Mesh::builder()
        .env("LINKERD2_PROXY_OUTBOUND_TCP_FAILFAST_TIMEOUT", "300ms")
        .start()
        .await;
    mesh.service("db", [addr]);
    let mut wire = Wire::tunnel(mesh.proxy.outbound, "db:80").await;
    wire.send("not HTTP\n").await;
    assert!(wire.closes_within(Duration::from_secs(10)).await);
}

/// Python's `http.client` asks for a tunnel in HTTP/1.0, without a host field; so does pip with it.
#[tokio::test]
async fn a_tunnel_opens_in_http_1_0() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    for field in ["", "host: web\r\n", "proxy-connection: keep-alive\r\n"] {
        let mut wire = mesh.wire().await;
        wire.send(format!("CONNECT web:80 HTTP/1.0\r\n{field}\r\n"))
            .await;
        let head = wire.head().await;
        assert!(head.starts_with("HTTP/1.0 200"), "{head}");
        for unwanted in ["content-length", "transfer-encoding", "connection:"] {
            assert!(!head.to_lowercase().contains(unwanted), "{head}");
        }
        for _ in 0..2 {
            wire.send("GET / HTTP/1.1\r\nhost: web\r\n\r\n").await;
            assert_eq!(wire.response().await.1, "hello");
        }
    }
    // A tunnel that does not open is answered as any request of HTTP/1.0.
    let mut wire = mesh.wire().await;
    wire.send("CONNECT nowhere:80 HTTP/1.0\r\n\r\n").await;
    let answer = wire.rest().await;
    assert!(answer.starts_with("HTTP/1.0 502"), "{answer}");
}

/// An application that is itself a proxy opens the tunnel.
#[tokio::test]
async fn a_tunnel_of_http_1_0_opens_at_an_endpoint() {
    let endpoint = Tcp::start(|mut socket| async move {
        let mut read = Vec::new();
        while !read.ends_with(b"\r\n\r\n") && matches!(socket.read_buf(&mut read).await, Ok(1..)) {}
        let head = String::from_utf8_lossy(&read).into_owned();
        let _ = socket
            .write_all(b"HTTP/1.0 200 Connection established\r\n\r\n")
            .await;
        let _ = socket.write_all(head.as_bytes()).await;
        let _ = tokio::io::copy(&mut socket.split().0, &mut tokio::io::sink()).await;
    })
    .await;
    let mesh = Mesh::start().await;
    mesh.service("web", [endpoint.addr()]);
    let mut wire = Wire::tunnel(mesh.proxy.outbound, "web:80").await;
    wire.send("CONNECT far.test:443 HTTP/1.0\r\n\r\n").await;
    let head = wire.head().await;
    assert!(head.starts_with("HTTP/1.0 200"), "{head}");
    let seen = wire.head().await;
    assert!(
        seen.starts_with("CONNECT far.test:443 HTTP/1.0\r\n"),
        "{seen}"
    );
}
