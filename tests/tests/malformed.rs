//! Peers that violate protocols: they get an error, and other traffic is not affected.

#![allow(clippy::unwrap_used, missing_docs)]

use futures::future::join_all;
use linkerd_tests::{Load, Mesh, MeshBuilder, SOON, Server, Wire, eventually, soon};
use std::time::Duration;

/// A mesh under load beside malformed traffic.
struct World {
    mesh: Mesh,
    server: Server,
    load: Load,
}

impl World {
    async fn start() -> Self {
        Self::with(Mesh::builder()).await
    }

    async fn with(mesh: MeshBuilder) -> Self {
        let server = Server::echo().await;
        let mesh = mesh.start().await;
        mesh.service("web", [server.addr()]);
        let load = Load::http1(&mesh, 2, Duration::from_millis(5), "http://web/good");
        load.more(10).await;
        Self { mesh, server, load }
    }

    /// Sends bytes and returns the response until the proxy closes.
    async fn answer(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut wire = self.mesh.wire().await;
        wire.send(bytes).await;
        wire.rest().await
    }

    /// Requests at the server other than those of the load.
    fn strays(&self) -> Vec<String> {
        let seen = self
            .server
            .seen()
            .into_iter()
            .map(|seen| seen.uri.to_string());
        seen.filter(|uri| uri != "/good").collect()
    }

    async fn finish(mut self) {
        self.load.more(20).await;
        self.load.stop().await.assert_clean();
        assert!(self.mesh.proxy.is_alive());
        let log = self.mesh.proxy.log();
        assert!(!log.contains("panicked"), "{log}");
    }
}

#[tokio::test]
async fn malformed_http_1_is_refused() {
    let world = World::start().await;
    for head in [
        "GET / HTTP/1.1\r\nhost: web\r\nno colon\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: web\r\nbad name: x\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: web\r\nx: a\0b\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: web\r\n : x\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: web\r\ncontent-length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: web\r\ncontent-length: 1x\r\n\r\nx",
        "POST / HTTP/1.1\r\nhost: web\r\ncontent-length: 99999999999999999999\r\n\r\nx",
    ] {
        let answer = world.answer(head).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{head:?}: {answer:?}");
    }
    assert_eq!(world.strays(), Vec::<String>::new());
    world.finish().await;
}

#[tokio::test]
async fn requests_that_two_servers_would_delimit_differently_are_not_passed_on() {
    let world = World::start().await;
    let smuggled = "GET /smuggled HTTP/1.1\r\nhost: web\r\n\r\n";
    for head in [
        "content-length: 0\r\ncontent-length: 44",
        "content-length: 0, 44",
        "transfer-encoding: chunked, identity",
        "transfer-encoding: identity",
        "transfer-encoding: xchunked",
        "transfer-encoding: chunked\r\ntransfer-encoding: identity",
        "transfer-encoding : chunked",
        "transfer-encoding: chunked\r\n continued: x",
    ] {
        let request = format!("POST /outer HTTP/1.1\r\nhost: web\r\n{head}\r\n\r\n{smuggled}");
        let answer = world.answer(request).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{head:?}: {answer:?}");
    }
    assert_eq!(world.strays(), Vec::<String>::new());
    world.finish().await;
}

#[tokio::test]
async fn with_both_a_length_and_chunks_the_chunks_count_and_the_length_is_not_passed_on() {
    let world = World::start().await;
    // RFC 9112, 6.3: it ought to be handled as an error, or the length removed, and the connection closed.
    let request = "POST /both HTTP/1.1\r\nhost: web\r\ncontent-length: 3\r\n\
        transfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: web\r\n\r\n";
    let mut wire = world.mesh.wire().await;
    wire.send(request).await;
    let head = wire.head().await;
    if head.starts_with("HTTP/1.1 200") {
        let seen = world.server.seen();
        let outer = seen.iter().find(|seen| seen.uri == "/both").unwrap();
        assert!(!outer.headers.contains_key("content-length"), "{outer:?}");
    } else {
        assert!(head.starts_with("HTTP/1.1 400"), "{head}");
    }
    world.finish().await;
}

#[tokio::test]
async fn malformed_chunks_break_the_request_off() {
    let world = World::start().await;
    for chunk in [
        "x\r\nabc\r\n0\r\n\r\n",
        "-1\r\n",
        "ffffffffffffffffff\r\n",
        "3\r\nabcd\r\n0\r\n\r\n",
    ] {
        let request =
            format!("POST /bad HTTP/1.1\r\nhost: web\r\ntransfer-encoding: chunked\r\n\r\n{chunk}");
        let answer = world.answer(request).await;
        assert!(
            !answer.contains("abc\r\n0\r\n\r\n"),
            "{chunk:?}: {answer:?}"
        );
    }
    world.finish().await;
}

#[tokio::test]
async fn heads_that_are_too_large_are_answered_with_431() {
    let world = World::start().await;
    let many: String = (0..200).map(|n| format!("x-{n}: y\r\n")).collect();
    let answer = world
        .answer(format!("GET / HTTP/1.1\r\nhost: web\r\n{many}\r\n"))
        .await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    // Buffers grow in steps: a size slightly above the limit may pass.
    let long = "y".repeat(1_000_000);
    let answer = world
        .answer(format!("GET / HTTP/1.1\r\nhost: web\r\nx: {long}\r\n\r\n"))
        .await;
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 431"),
        "{answer}"
    );
    let path = "y".repeat(70_000);
    let answer = world
        .answer(format!("GET /{path} HTTP/1.1\r\nhost: web\r\n\r\n"))
        .await;
    assert!(answer.starts_with("HTTP/1.1 414"), "{answer}");
    assert_eq!(world.strays(), Vec::<String>::new());
    world.finish().await;
}

#[tokio::test]
async fn a_head_of_a_hundred_kilobytes_passes() {
    let world = World::start().await;
    let long = "y".repeat(100_000);
    let mut wire = world.mesh.wire().await;
    wire.send(format!(
        "GET /long HTTP/1.1\r\nhost: web\r\nx: {long}\r\n\r\n"
    ))
    .await;
    assert!(wire.head().await.starts_with("HTTP/1.1 200"));
    world.finish().await;
}

#[tokio::test]
async fn garbage_after_the_http_2_preface_ends_the_connection() {
    let world = World::start().await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    for garbage in [
        &b"GET / HTTP/1.1\r\nhost: web\r\n\r\n"[..],
        &[0xff; 64],
        // A frame of 16 MB, DATA on no stream, HEADERS of garbage, a SETTINGS of 5 bytes.
        &[0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1],
        &[0, 0, 4, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4],
        &[0, 0, 4, 1, 5, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff],
        &[0, 0, 5, 4, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5],
    ] {
        let mut wire = world.mesh.wire().await;
        wire.send(preface).await;
        wire.send(settings).await;
        wire.send(garbage).await;
        assert!(wire.closes_within(SOON).await, "{garbage:?}");
    }
    let mut wire = world.mesh.wire().await;
    wire.send(b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n").await;
    assert!(wire.closes_within(SOON).await);
    world.finish().await;
}

#[tokio::test]
async fn streams_that_are_opened_and_reset_rapidly_end_their_connection() {
    let world = World::start().await;
    let before = world.mesh.proxy.rss();
    for _ in 0..3 {
        rapid_reset(&world.mesh).await;
    }
    let after = world.mesh.proxy.rss();
    assert!(after < before + (64 << 20), "{before} {after}");
    world.finish().await;
}

/// Opens and resets 10,000 streams, or fewer if the proxy ends the connection.
async fn rapid_reset(mesh: &Mesh) {
    let socket = tokio::net::TcpStream::connect(mesh.proxy.outbound)
        .await
        .unwrap();
    let (mut send, connection) = h2::client::handshake(socket).await.unwrap();
    let connection = tokio::spawn(connection);
    for _ in 0..10_000 {
        let request = http::Request::builder()
            .uri("http://web/reset")
            .body(())
            .unwrap();
        match send.send_request(request, true) {
            Ok((response, mut stream)) => {
                stream.send_reset(h2::Reason::CANCEL);
                drop(response);
            }
            Err(_) => break,
        }
        tokio::task::yield_now().await;
    }
    drop(send);
    let _ = soon(connection).await;
}

#[tokio::test]
async fn thousands_of_connections_that_say_little_cost_little() {
    // All connections arrive at once, and stay open during the test.
    let mesh = Mesh::builder()
        .env("LINKERD2_PROXY_OUTBOUND_TCP_LISTEN_BACKLOG", "4096")
        .env("LINKERD2_PROXY_OUTBOUND_DETECT_TIMEOUT", "60s");
    let world = World::with(mesh).await;
    let before = world.mesh.proxy.rss();
    let mut wires = Vec::new();
    for n in 0..2000 {
        let mut wire: Wire = world.mesh.wire().await;
        match n % 4 {
            0 => {}
            1 => wire.send("G").await,
            2 => wire.send("GET / HTTP/1.1\r\nhost: web\r\nx: ").await,
            _ => wire.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await,
        }
        wires.push(wire);
    }
    let open = [("direction", "outbound"), ("peer", "src")];
    world
        .mesh
        .proxy
        .metric_reaches("tcp_open_connections", &open, 2000.0)
        .await;
    let each = (world.mesh.proxy.rss() - before) / 2000;
    assert!(each < 32 << 10, "{each} bytes for each connection");
    world.load.more(50).await;
    for (n, wire) in wires.into_iter().enumerate() {
        match n % 2 {
            0 => drop(wire),
            _ => wire.abort(),
        }
    }
    eventually(SOON, "they are gone", || async {
        let open = world
            .mesh
            .proxy
            .metrics()
            .await
            .sum("tcp_open_connections", &open);
        (open < 10.0).then_some(())
    })
    .await;
    world.finish().await;
}

#[tokio::test]
async fn connections_that_come_and_go_at_once_leave_nothing_behind() {
    let world = World::start().await;
    for _ in 0..10 {
        join_all((0..100).map(|_| async { world.mesh.wire().await.abort() })).await;
    }
    eventually(SOON, "they are gone", || async {
        let open = [("direction", "outbound"), ("peer", "src")];
        let open = world
            .mesh
            .proxy
            .metrics()
            .await
            .sum("tcp_open_connections", &open);
        (open < 10.0).then_some(())
    })
    .await;
    world.finish().await;
}
