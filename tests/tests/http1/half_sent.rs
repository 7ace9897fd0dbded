//! Requests whose heads arrive in pieces, or never completely.

use linkerd_tests::{Mesh, SOON, Server, Wire, eventually};

const BEGUN: &str = "GET / HTTP/1.1\r\nhost: web\r\nx-half: ";

/// The number of half-sent requests in the proxy's state.
async fn half_sent(mesh: &Mesh) -> u64 {
    let state = mesh.proxy.admin.state().await;
    let waiting = state.pointer("/workers/0/outbound/half_sent/waiting");
    waiting.and_then(serde_json::Value::as_u64).unwrap()
}

async fn begin(mesh: &Mesh, count: u64) -> Vec<Wire> {
    let mut wires = Vec::new();
    for _ in 0..count {
        let mut wire = mesh.wire().await;
        wire.send(BEGUN).await;
        wires.push(wire);
    }
    wires
}

async fn until_half_sent(mesh: &Mesh, count: u64) {
    eventually(SOON, "the requests are half sent", || async {
        (half_sent(mesh).await == count).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_half_sent_request_takes_little_memory_and_is_answered_when_it_is_whole() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    // The allocator's memory for half-sent requests exists before the measurement.
    drop(begin(&mesh, 100).await);
    until_half_sent(&mesh, 0).await;
    let before = mesh.proxy.rss();
    let mut wires = begin(&mesh, 900).await;
    until_half_sent(&mesh, 900).await;
    let each = mesh.proxy.rss().saturating_sub(before) / 900;
    assert!(each <= 12 * 1024, "{each} bytes");
    let mut wire = wires.pop().unwrap();
    wire.send("1\r\n\r\n").await;
    assert_eq!(wire.response().await.1, "hello");
}

#[tokio::test]
async fn the_second_request_of_a_connection_may_be_half_sent_too() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    let mut wire = mesh.wire().await;
    for _ in 0..2 {
        wire.send("GET / HTTP/1.1\r\nhost: web\r\n\r\n").await;
        assert_eq!(wire.response().await.1, "hello");
        wire.send(BEGUN).await;
        until_half_sent(&mesh, 1).await;
        wire.send("1\r\n").await;
        wire.send("x-more: 2\r\n\r\n").await;
        assert_eq!(wire.response().await.1, "hello");
    }
    assert_eq!(server.last().headers["x-half"], "1");
}

#[tokio::test]
async fn one_too_many_half_sent_requests_end_the_oldest() {
    let mesh = Mesh::start().await;
    let mut wires = begin(&mesh, 1025).await;
    let answer = wires[0].rest().await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert_eq!(half_sent(&mesh).await, 1024);
    let labels = [("error", "loadshed")];
    mesh.proxy
        .metric_reaches("outbound_tcp_errors_total", &labels, 1.0)
        .await;
}
