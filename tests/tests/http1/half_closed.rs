//! Clients that end their side of the connection after their request (RFC 9112, section 9.6).

use futures::StreamExt;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::{Frame, Incoming};
use linkerd_tests::{Body, Fail, Mesh, SOON, Server, Wire, chunks, eventually, reply, soon};
use std::time::Duration;

/// A body of three parts, a second apart.
fn slow() -> Body {
    let parts = ["one ", "two ", "three"].map(|part| Frame::data(part.into()));
    let parts = futures::stream::iter(parts).then(|part| async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(part)
    });
    chunks(parts)
}

async fn answer(request: Request<Incoming>) -> Result<Response<Body>, Fail> {
    match request.uri().path() {
        "/never" => std::future::pending().await,
        "/slow" => return Ok(Response::new(slow())),
        _ => {}
    }
    let text = format!("{} {}", request.method(), request.uri().path());
    let body = request.into_body().collect().await;
    let body = body.map_err(|_| Fail::Close)?.to_bytes();
    tokio::time::sleep(Duration::from_secs(1)).await;
    reply(format!("{text} {}", body.len()))
}

#[tokio::test]
async fn a_client_that_ends_its_side_after_its_request_gets_its_answer() {
    let server = Server::start(answer).await;
    let mesh = Mesh::with(&server).await;
    let body = "x".repeat(100_000);
    for (request, expected) in [
        (
            "GET /a HTTP/1.1\r\nhost: web\r\n\r\n".to_owned(),
            "GET /a 0",
        ),
        (
            "GET /a HTTP/1.0\r\nhost: web\r\n\r\n".to_owned(),
            "GET /a 0",
        ),
        (
            "GET /a HTTP/1.1\r\nhost: web\r\nconnection: close\r\n\r\n".to_owned(),
            "GET /a 0",
        ),
        (
            format!("POST /b HTTP/1.1\r\nhost: web\r\ncontent-length: 100000\r\n\r\n{body}"),
            "POST /b 100000",
        ),
        (
            format!(
                "POST /b HTTP/1.1\r\nhost: web\r\ntransfer-encoding: chunked\r\n\r\n\
                 186a0\r\n{body}\r\n0\r\n\r\n"
            ),
            "POST /b 100000",
        ),
        // The second request is answered, too.
        (
            "GET /a HTTP/1.1\r\nhost: web\r\n\r\nGET /c HTTP/1.1\r\nhost: web\r\n\r\n".to_owned(),
            "GET /c 0",
        ),
    ] {
        let mut wire = mesh.wire().await;
        wire.send(&request).await;
        wire.finish().await;
        let answer = soon(wire.rest()).await;
        assert!(answer.contains(" 200 OK"), "{answer:?}");
        assert!(answer.ends_with(expected), "{answer:?}");
    }
}

#[tokio::test]
async fn an_answer_that_comes_in_parts_arrives_whole() {
    let server = Server::start(answer).await;
    let mesh = Mesh::with(&server).await;
    // Also in a tunnel, whose connection is relayed if it is not HTTP.
    for mut wire in [
        mesh.wire().await,
        Wire::tunnel(mesh.proxy.outbound, "web:80").await,
    ] {
        wire.send("GET /slow HTTP/1.0\r\nhost: web\r\n\r\n").await;
        wire.finish().await;
        let answer = soon(wire.rest()).await;
        assert!(answer.ends_with("one two three"), "{answer:?}");
    }
}

#[tokio::test]
async fn a_request_that_its_client_cuts_short_is_not_answered_as_a_whole_one() {
    let server = Server::start(answer).await;
    let mesh = Mesh::with(&server).await;
    let mut wire = mesh.wire().await;
    wire.send("POST /b HTTP/1.1\r\nhost: web\r\ncontent-length: 9\r\n\r\nhalf")
        .await;
    wire.finish().await;
    let answer = soon(wire.rest()).await;
    assert!(!answer.contains("200"), "{answer:?}");
}

/// A request that has arrived, and gets no answer.
async fn unanswered() -> (Server, Mesh, Wire) {
    let server = Server::start(answer).await;
    let mesh = Mesh::with(&server).await;
    let mut wire = mesh.wire().await;
    wire.send("GET /never HTTP/1.1\r\nhost: web\r\n\r\n").await;
    eventually(SOON, "the request arrives", || async {
        (server.in_flight() == 1).then_some(())
    })
    .await;
    (server, mesh, wire)
}

#[tokio::test]
async fn a_request_without_an_answer_does_not_outlast_its_client_for_long() {
    let (server, _mesh, mut wire) = unanswered().await;
    wire.finish().await;
    eventually(SOON, "the request is given up", || async {
        (server.in_flight() == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_request_whose_client_is_reset_is_given_up_at_once() {
    let (server, mesh, wire) = unanswered().await;
    wire.abort();
    eventually(
        Duration::from_secs(5),
        "the request is given up",
        || async { (server.in_flight() == 0).then_some(()) },
    )
    .await;
    let labels = [
        ("direction", "outbound"),
        ("peer", "src"),
        ("errno", "ECONNRESET"),
    ];
    eventually(SOON, "the reset is counted", || async {
        let metrics = mesh.proxy.metrics().await;
        (metrics.sum("tcp_close_total", &labels) == 1.0).then_some(())
    })
    .await;
}
