//! Invalid responses of endpoints.

use linkerd_control::Policy;
use linkerd_tests::{Mesh, Server, Tcp, Wire};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

async fn mesh(bytes: &'static [u8]) -> (Mesh, Tcp) {
    let server = Tcp::answers(bytes).await;
    let mesh = Mesh::start().await;
    mesh.service("web", [server.addr()]);
    (mesh, server)
}

async fn get(mesh: &Mesh, fields: &str) -> Wire {
    let mut wire = mesh.wire().await;
    wire.send(format!("GET / HTTP/1.1\r\nhost: web\r\n{fields}\r\n"))
        .await;
    wire
}

#[tokio::test]
async fn a_response_with_a_length_and_chunks_reaches_the_client() {
    let (mesh, _server) = mesh(
        b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    )
    .await;
    let mut wire = get(&mesh, "").await;
    let head = wire.head().await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(!head.contains("content-length"), "{head}");
    assert_eq!(wire.until(b"0\r\n\r\n").await, "5\r\nhello\r\n0\r\n\r\n");
}

/// Interim responses are dropped (docs/operations.md), and hide nothing of the final one.
#[tokio::test]
async fn interim_responses_of_an_endpoint_do_not_hide_its_final_one() {
    let (mesh, _server) = mesh(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n\
          HTTP/1.1 103 Early Hints\r\nlink: </style.css>\r\n\r\n\
          HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi",
    )
    .await;
    let (head, body) = get(&mesh, "").await.response().await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(!head.contains("link"), "{head}");
    assert_eq!(body, "hi");
}

#[tokio::test]
async fn whitespace_before_the_colon_of_a_responses_field_is_removed() {
    for space in [" ", "\t", "  "] {
        let answer = format!(
            "HTTP/1.1 200 OK\r\nx-own{space}: value\r\nTransfer-Encoding{space}: chunked\r\n\r\n\
             2\r\nhi\r\n0\r\n\r\n"
        );
        let (mesh, _server) = mesh(answer.leak().as_bytes()).await;
        let mut wire = get(&mesh, "").await;
        let head = wire.head().await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(head.contains("\r\nx-own: value\r\n"), "{head}");
        assert!(
            head.contains("\r\ntransfer-encoding: chunked\r\n"),
            "{head}"
        );
        assert_eq!(wire.until(b"0\r\n\r\n").await, "2\r\nhi\r\n0\r\n\r\n");
        let head = get(&mesh, &format!("x-own{space}: value\r\n"))
            .await
            .head()
            .await;
        assert!(head.starts_with("HTTP/1.1 400"), "{head}");
    }
}

#[tokio::test]
async fn a_connection_whose_response_had_two_ends_is_not_used_again() {
    let both = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n";
    let one = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi";
    for (answer, connections) in [(both, 2), (one, 1)] {
        let server = Tcp::start(move |mut socket| async move {
            let mut read = Vec::new();
            while let Ok(1..) = socket.read_buf(&mut read).await {
                if read.ends_with(b"\r\n\r\n") {
                    read.clear();
                    let _ = socket.write_all(answer.as_bytes()).await;
                }
            }
        })
        .await;
        let mesh = Mesh::start().await;
        mesh.service("web", [server.addr()]);
        for _ in 0..2 {
            let (head, _) = get(&mesh, "").await.response().await;
            assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        }
        assert_eq!(server.connections(), connections, "{answer}");
    }
}

#[tokio::test]
async fn a_switch_to_a_protocol_that_was_not_offered_is_not_passed_on() {
    let offer = "connection: upgrade\r\nupgrade: websocket, chat/2\r\n";
    for (switched, status) in [
        ("upgrade: WebSocket\r\n", "101"),
        ("upgrade: chat/2\r\n", "101"),
        ("upgrade: other\r\n", "502"),
        ("upgrade: websocket, other\r\n", "502"),
        ("upgrade: chat\r\n", "502"),
        ("", "502"),
    ] {
        let answer = format!("HTTP/1.1 101 Switching\r\nconnection: upgrade\r\n{switched}\r\n");
        let (mesh, _server) = mesh(answer.leak().as_bytes()).await;
        let head = get(&mesh, offer).await.head().await;
        assert!(
            head.starts_with(&format!("HTTP/1.1 {status}")),
            "{switched}: {head}"
        );
    }
}

#[tokio::test]
async fn equal_lengths_become_one() {
    for bytes in [
        &b"HTTP/1.1 200 OK\r\ncontent-length: 5, 5\r\n\r\nhello"[..],
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 5\r\n\r\nhello",
    ] {
        let (mesh, _server) = mesh(bytes).await;
        let (head, body) = get(&mesh, "").await.response().await;
        assert_eq!(head.matches("content-length: 5\r\n").count(), 1, "{head}");
        assert_eq!(body, "hello");
    }
}

#[tokio::test]
async fn a_response_that_others_read_differently_is_not_passed_on() {
    for bytes in [
        &b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n"[..],
        b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: chat\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
    ] {
        let (mesh, _server) = mesh(bytes).await;
        let head = get(&mesh, "").await.head().await;
        assert!(head.starts_with("HTTP/1.1 502"), "{head}");
        assert!(head.contains("details=\"invalid_response\""), "{head}");
    }
}

#[tokio::test]
async fn an_answer_in_http_1_0_keeps_the_clients_connection() {
    let (mesh, _server) = mesh(b"HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\nhello").await;
    let mut wire = mesh.wire().await;
    for _ in 0..3 {
        wire.send("GET / HTTP/1.1\r\nhost: web\r\n\r\n").await;
        let (head, body) = wire.response().await;
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(!head.contains("close"), "{head}");
        assert_eq!(body, "hello");
    }
}

#[tokio::test]
async fn an_answer_in_http_1_0_without_a_length_ends_with_the_clients_connection() {
    let (mesh, _server) = mesh(b"HTTP/1.0 200 OK\r\n\r\nhello").await;
    let all = get(&mesh, "").await.rest().await;
    let (head, body) = all.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(" 200 OK\r\n"), "{all}");
    assert!(!head.contains("transfer-encoding"), "{all}");
    assert_eq!(body, "hello");
}

#[tokio::test]
async fn a_response_that_breaks_off_at_once_reaches_the_client_as_far_as_it_came() {
    for (bytes, came) in [
        (
            &b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n"[..],
            &b""[..],
        ),
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhello",
            b"hello",
        ),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
            b"5\r\nhello\r\n",
        ),
    ] {
        let (mesh, _server) = mesh(bytes).await;
        let mut wire = get(&mesh, "").await;
        let head = wire.head().await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert_eq!(wire.rest().await.as_bytes(), came);
    }
}

/// A service whose endpoint writes `again` without end after `first`, and another that answers.
async fn endless(first: &'static [u8], again: &'static [u8]) -> (Mesh, Tcp, Server) {
    let flood = Tcp::start(move |mut socket| async move {
        let _ = socket.read(&mut [0; 1024]).await;
        let _ = socket.write_all(first).await;
        let many = again.repeat(64 * 1024 / again.len());
        while socket.write_all(&many).await.is_ok() {}
    })
    .await;
    let other = Server::says("hello").await;
    let mesh = Mesh::builder()
        .env("LINKERD2_PROXY_CORES", "1")
        .start()
        .await;
    mesh.service("web", [flood.addr()]);
    mesh.service("other", [other.addr()]);
    let timeout = Duration::from_secs(1);
    mesh.policy("web")
        .set(Policy::balance("web", 80).request_timeout(timeout));
    (mesh, flood, other)
}

#[tokio::test]
async fn a_flood_of_interim_responses_holds_up_no_other_request_and_no_timeout() {
    let (mesh, _flood, _other) = endless(b"", b"HTTP/1.1 103 X\r\nlink: </a>\r\n\r\n").await;
    let mut flooded = get(&mesh, "").await;
    assert_eq!(mesh.get("http://other/").await.status, 200);
    let head = flooded.head().await;
    assert!(head.starts_with("HTTP/1.1 504"), "{head}");
}

#[tokio::test]
async fn an_endless_length_of_a_chunk_holds_up_no_other_request_and_no_timeout() {
    let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let (mesh, _flood, _other) = endless(head, b"0").await;
    let mut flooded = get(&mesh, "").await;
    assert_eq!(mesh.get("http://other/").await.status, 200);
    let all = flooded.rest().await;
    assert!(all.starts_with("HTTP/1.1 200"), "{all}");
    assert!(!all.ends_with("0\r\n\r\n"), "{all}");
}
