//! Clients whose requests or connections are not valid.

use crate::{
    crowd, impatient, provoke,
    seen::{Seen, answered_in_bytes, unanswered},
};
use linkerd_tests::{SOON, Server};

provoke! {
    invalid_request => async |reason: &'static str| sends("GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", reason).await;
    invalid_framing => async |reason: &'static str| {
        sends("POST / HTTP/1.1\r\nhost: web\r\ntransfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n", reason).await
    };
    broken_body => async |reason: &'static str| {
        sends("POST / HTTP/1.1\r\nhost: web\r\ntransfer-encoding: chunked\r\n\r\nno length\r\n", reason).await
    };
    no_authority => async |reason: &'static str| sends("GET / HTTP/1.0\r\n\r\n", reason).await;
    header_timeout => async |reason: &'static str| sends("GET / HTTP/1.1\r\nhost: web\r\nx-slow: ", reason).await;
    half_sent_limit => async |reason: &'static str| {
        let mesh = impatient().start().await;
        let mut wires = crowd(mesh.proxy.outbound, b"GET / HTTP/1.1\r\nhost: web\r\nx-slow: ").await;
        let head = wires[0].head().await;
        answered_in_bytes(&mesh.proxy, &head, reason).await
    };
    malformed_request => async |reason: &'static str| {
        sends("GET / HTTP/1.1\r\nhost: web\r\nx\0y: 1\r\n\r\n", reason).await
    };
    head_too_large => async |reason: &'static str| {
        let fields = "x-many: 1\r\n".repeat(101);
        sends(&format!("GET / HTTP/1.1\r\nhost: web\r\n{fields}\r\n"), reason).await
    };
    target_too_long => async |reason: &'static str| {
        let path = "a".repeat(70_000);
        sends(&format!("GET /{path} HTTP/1.1\r\nhost: web\r\n\r\n"), reason).await
    };
    not_http => async |reason: &'static str| sends("\x01\x02\x03 hello\r\n\r\n", reason).await;
    no_destination => async |reason: &'static str| {
        let mesh = impatient().env("LINKERD_PROXY_OUTBOUND_EXPLICIT", "0").start().await;
        let mut wire = mesh.wire().await;
        wire.send("GET / HTTP/1.1\r\nhost: web\r\n\r\n").await;
        assert!(wire.closes_within(SOON).await);
        unanswered(&mesh.proxy, reason).await
    };
    closed_before_detection => async |reason: &'static str| {
        let mesh = impatient().start().await;
        let mut wire = mesh.wire().await;
        wire.finish().await;
        assert!(wire.closes_within(SOON).await);
        unanswered(&mesh.proxy, reason).await
    };
}

async fn sends(request: &str, reason: &'static str) -> Seen {
    let server = Server::echo().await;
    let builder = impatient().env("LINKERD_PROXY_HTTP_HEADER_TIMEOUT", "300ms");
    let mesh = builder.start().await;
    mesh.service("web", [server.addr()]);
    let mut wire = mesh.wire().await;
    wire.send(request).await;
    let head = wire.head().await;
    answered_in_bytes(&mesh.proxy, &head, reason).await
}

/// The codec of HTTP/2 ends the connection: there is no request to answer.
#[tokio::test]
async fn an_http2_client_that_violates_the_protocol_has_its_reason() {
    let mesh = impatient().start().await;
    for frame in [
        // SETTINGS of a length that is no multiple of six, and a DATA frame on stream 0.
        &[0, 0, 5, 4, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5][..],
        &[0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 9],
    ] {
        let mut wire = mesh.wire().await;
        wire.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        wire.send(frame).await;
        assert!(wire.closes_within(SOON).await);
    }
    let labels = [("reason", "malformed_request")];
    mesh.proxy
        .metric_reaches("proxy_failures_total", &labels, 2.0)
        .await;
}
