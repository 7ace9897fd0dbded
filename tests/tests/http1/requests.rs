//! Refused requests that another server might read differently.

use linkerd_control::Policy;
use linkerd_tests::{Mesh, Server, Tcp, Wire, soon};

/// The answer to bytes on a new connection.
async fn answer(mesh: &Mesh, bytes: &str) -> String {
    let mut wire = mesh.wire().await;
    wire.send(bytes).await;
    wire.head().await
}

fn refused(head: &str, reason: &str) {
    assert!(head.starts_with("HTTP/1.1 400"), "{head}");
    assert!(head.contains(&format!("details=\"{reason}\"")), "{head}");
}

#[tokio::test]
async fn several_hosts_are_refused_and_reach_no_endpoint() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    for hosts in [
        "host: web\r\nhost: web",
        "host: web\r\nhost: admin",
        "host: a b",
        "host: u@web",
    ] {
        let head = answer(
            &mesh,
            &format!("GET http://web/ HTTP/1.1\r\n{hosts}\r\n\r\n"),
        )
        .await;
        refused(&head, "invalid_request");
    }
    assert_eq!(server.requests(), 0);
}

#[tokio::test]
async fn an_https_target_is_never_fetched_in_cleartext() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    mesh.controller
        .policy("web:443")
        .set(Policy::forward(server.addr()));
    for target in ["https://web/", "https://web:443/", "https://web:80/"] {
        let head = answer(
            &mesh,
            &format!("GET {target} HTTP/1.1\r\nhost: web\r\n\r\n"),
        )
        .await;
        refused(&head, "invalid_request");
        assert!(head.contains("CONNECT"), "{head}");
    }
    let reply = soon(mesh.http2().await.get("https://web/")).await.unwrap();
    assert_eq!(reply.status, 400);
    assert_eq!(server.requests(), 0);
}

#[tokio::test]
async fn a_transfer_encoding_that_others_read_differently_is_refused() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    for codings in [
        "transfer-encoding: chunked, chunked",
        "transfer-encoding: chunked\r\ntransfer-encoding: chunked",
        "transfer-encoding: identity, chunked",
    ] {
        let request = format!("POST / HTTP/1.1\r\nhost: web\r\n{codings}\r\n\r\n0\r\n\r\n");
        let mut wire = mesh.wire().await;
        wire.send(request).await;
        let all = wire.rest().await;
        refused(&all, "invalid_framing");
    }
    assert_eq!(server.requests(), 0);
}

#[tokio::test]
async fn a_body_that_breaks_off_is_the_clients_failure() {
    let server = Server::echo().await;
    let mesh = Mesh::with(&server).await;
    let mut wire = mesh.wire().await;
    wire.send("POST / HTTP/1.1\r\nhost: web\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\nnot a size\r\n")
        .await;
    // The endpoint may have begun to respond.
    let all = wire.rest().await;
    assert!(all.is_empty() || !all.contains("502"), "{all}");

    let silent = Tcp::start(|mut socket| async move {
        let mut buf = [0; 1024];
        while matches!(
            tokio::io::AsyncReadExt::read(&mut socket, &mut buf).await,
            Ok(1..)
        ) {}
    })
    .await;
    mesh.service("silent", [silent.addr()]);
    let mut wire = mesh.wire().await;
    wire.send("POST / HTTP/1.1\r\nhost: silent\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\nnot a size\r\n")
        .await;
    let head = wire.head().await;
    refused(&head, "broken_body");
    let labels = [("reason", "broken_body")];
    mesh.proxy
        .metric_reaches("proxy_failures_total", &labels, 1.0)
        .await;
    let metrics = mesh.proxy.metrics().await;
    let failures = [("direction", "outbound"), ("classification", "failure")];
    assert_eq!(metrics.sum("response_total", &failures), 0.0);
}

#[tokio::test]
async fn an_upgrade_passes_without_h2c_and_what_belongs_to_the_connection() {
    let seen = Tcp::start(|mut socket| async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut read = Vec::new();
        while !read.windows(4).any(|end| end == b"\r\n\r\n") {
            if !matches!(socket.read_buf(&mut read).await, Ok(1..)) {
                return;
            }
        }
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", read.len());
        let _ = socket.write_all(&[head.as_bytes(), &read].concat()).await;
    })
    .await;
    let mesh = Mesh::start().await;
    mesh.service("web", [seen.addr()]);
    for (fields, passed) in [
        (
            "connection: upgrade\r\nupgrade: websocket, h2c",
            Some("websocket"),
        ),
        ("connection: upgrade\r\nupgrade: h2c;a=b", None),
        (
            "connection: upgrade\r\nupgrade: h2c\r\nupgrade: chat/2",
            Some("chat/2"),
        ),
        ("upgrade: websocket", None),
        (
            "connection: upgrade, x-secret, \u{e4}\r\nx-secret: 1\r\nupgrade: websocket",
            Some("websocket"),
        ),
    ] {
        let mut wire = mesh.wire().await;
        let request = format!("GET / HTTP/1.1\r\nhost: web\r\nkeep-alive: 5\r\n{fields}\r\n\r\n");
        wire.send(request).await;
        let (_, seen) = wire.response().await;
        let seen = seen.to_lowercase();
        assert!(!seen.contains("h2c"), "{fields}: {seen}");
        assert!(
            !seen.contains("keep-alive") && !seen.contains("x-secret"),
            "{seen}"
        );
        match passed {
            Some(protocol) => {
                assert!(
                    seen.contains(&format!("upgrade: {protocol}\r\n")),
                    "{fields}: {seen}"
                );
                assert!(seen.contains("connection: upgrade\r\n"), "{seen}");
            }
            None => assert!(!seen.contains("upgrade"), "{fields}: {seen}"),
        }
    }
}

#[tokio::test]
async fn the_explicit_proxy_answers_with_error_reason_and_hint() {
    let mesh = Mesh::start().await;
    let reply = mesh.get("http://nobody/").await;
    assert_eq!(reply.status, 502);
    let text = reply.text();
    assert!(
        text.starts_with("error: the policy of nobody:80 cannot be discovered"),
        "{text}"
    );
    assert!(
        text.contains("\nreason: unknown_destination\nhint: "),
        "{text}"
    );
    // A tunnel's client is not a client of the explicit proxy, and gets the response of a pod's application.
    let server = Server::says("hello").await;
    mesh.service("web", [server.addr()]);
    let mut wire = Wire::tunnel(mesh.proxy.outbound, "web:80").await;
    wire.send("GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n")
        .await;
    let (head, body) = wire.response().await;
    assert!(
        head.starts_with("HTTP/1.1 400") && body.is_empty(),
        "{head}{body}"
    );
}

#[tokio::test]
async fn the_explicit_proxy_answers_a_broken_request_line() {
    let mesh = Mesh::start().await;
    for line in ["GET http://web/a b HTTP/1.1", "GET http://web/ HTTP/1.2"] {
        let mut wire = mesh.wire().await;
        wire.send(format!("{line}\r\nhost: web\r\n\r\n")).await;
        let all = wire.rest().await;
        assert!(all.starts_with("HTTP/1.1 400"), "{line}: {all}");
    }
}

#[tokio::test]
async fn a_request_by_name_to_an_opaque_service_is_told_to_open_a_tunnel() {
    let server = Tcp::echo().await;
    let mesh = Mesh::start().await;
    mesh.service("db", [server.addr()]);
    mesh.policy("db").set(Policy::balance("db", 80).opaque());
    let head = answer(&mesh, "GET http://db/ HTTP/1.1\r\nhost: db\r\n\r\n").await;
    refused(&head, "invalid_request");
    assert!(head.contains("CONNECT"), "{head}");
    let mut wire = Wire::tunnel(mesh.proxy.outbound, "db:80").await;
    wire.send("ping").await;
    assert_eq!(wire.bytes(4).await, b"ping");
}
