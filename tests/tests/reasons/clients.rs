//! Clients whose requests or connections are not valid.

use crate::{
    impatient, provoke,
    seen::{Seen, unanswered},
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
    no_destination => async |reason: &'static str| sends("\x01\x02\x03 hello\r\n\r\n", reason).await;
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
    let seen = unanswered(&mesh.proxy, reason).await;
    drop(wire);
    seen
}
