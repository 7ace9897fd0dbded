//! Closing of a client's connection.

use linkerd_tests::{Mesh, Tcp, Wire};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// An endpoint that answers GET with [`LARGE`] bytes, and closes on any other method.
async fn endpoint() -> Tcp {
    Tcp::start(|mut socket| async move {
        while let Some(head) = head(&mut socket).await
            && head.starts_with("GET ")
        {
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {LARGE}\r\n\r\n");
            let _ = socket.write_all(head.as_bytes()).await;
            let _ = socket.write_all(&vec![b'x'; LARGE]).await;
        }
    })
    .await
}

async fn head(socket: &mut TcpStream) -> Option<String> {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n") {
        read.push(socket.read_u8().await.ok()?);
    }
    String::from_utf8(read).ok()
}

/// Sends a GET that is answered, a POST at which the endpoint closes, and this many bytes of requests after them.
async fn pipeline(mesh: &Mesh, behind: usize) -> Wire {
    let request = |method: &str| format!("{method} / HTTP/1.1\r\nhost: web\r\n\r\n");
    let mut wire = mesh.wire().await;
    let mut requests = request("GET") + &request("POST");
    while requests.len() < behind {
        requests += &request("GET");
    }
    wire.send(requests).await;
    wire
}

/// Waits until the connection to this client is closed.
async fn closed(mesh: &Mesh) {
    let labels = [("direction", "outbound"), ("peer", "src")];
    mesh.proxy
        .metric_reaches("tcp_close_total", &labels, 1.0)
        .await;
}

#[tokio::test]
async fn a_large_response_arrives_although_the_requests_behind_it_are_not_served() {
    let endpoint = endpoint().await;
    let mesh = Mesh::start().await;
    mesh.service("web", [endpoint.addr()]);
    let mut wire = pipeline(&mesh, 40_000).await;
    // Bytes read after the connection's end had arrived before it.
    closed(&mesh).await;
    let (head, body) = wire.response().await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert_eq!(body.len(), LARGE);
    let (head, body) = wire.response().await;
    assert!(head.starts_with("HTTP/1.1 502"), "{head}");
    assert!(head.contains("connection: close"), "{head}");
    assert!(body.contains("connection_lost"), "{body}");
    assert_eq!(wire.rest().await, "");
}

#[tokio::test]
async fn a_client_that_sends_on_and_on_is_not_waited_for() {
    let endpoint = endpoint().await;
    let mesh = Mesh::start().await;
    mesh.service("web", [endpoint.addr()]);
    let _wire = pipeline(&mesh, 400_000).await;
    closed(&mesh).await;
}

#[tokio::test]
async fn a_client_that_closes_with_the_proxy_costs_it_no_time() {
    let endpoint = endpoint().await;
    let mesh = Mesh::start().await;
    mesh.service("web", [endpoint.addr()]);
    let mut wire = mesh.wire().await;
    wire.send("POST / HTTP/1.1\r\nhost: web\r\n\r\n").await;
    let (head, _) = wire.response().await;
    assert!(head.contains("connection: close"), "{head}");
    assert_eq!(wire.rest().await, "");
    drop(wire);
    closed(&mesh).await;
}

const LARGE: usize = 220_000;
