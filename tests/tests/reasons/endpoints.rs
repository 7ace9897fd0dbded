//! Endpoints that cannot be reached, or answer wrongly.

use crate::{
    impatient, provoke,
    seen::{Seen, answered, unanswered},
};
use http::Method;
use linkerd_control::{Endpoint, Policy};
use linkerd_tests::{Fail, Mesh, Server, Tcp, blackhole, body, refused, request, soon};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

provoke! {
    connect_refused => async |reason: &'static str| {
        let (addr, _guard) = refused();
        forward(addr, reason).await
    };
    // A broadcast address has no route for TCP.
    connect_failed => async |reason: &'static str| forward(([255, 255, 255, 255], 80).into(), reason).await;
    connect_timeout => async |reason: &'static str| {
        let (addr, _guard) = blackhole();
        forward(addr, reason).await
    };
    prohibited => async |reason: &'static str| {
        let server = Server::says("hello").await;
        let builder = impatient().env("LINKERD_PROXY_OUTBOUND_ALLOW_LOOPBACK", 0);
        let mesh = builder.start().await;
        mesh.policy("web").set(Policy::forward(server.addr()));
        got(&mesh, reason).await
    };
    r#loop => async |reason: &'static str| {
        let mesh = impatient().start().await;
        mesh.policy("web").set(Policy::forward(mesh.proxy.outbound));
        got(&mesh, reason).await
    };
    endpoint_speaks_http1 => async |reason: &'static str| {
        // The server answers the first request: the proxy does not wait for SETTINGS for ever.
        let server = Tcp::start(|mut socket| async move {
            let mut read = Vec::new();
            while !has_headers(&read) && matches!(socket.read_buf(&mut read).await, Ok(1..)) {}
            let answer = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n";
            let _ = socket.write_all(answer).await;
        })
        .await;
        let failfast = "LINKERD2_PROXY_OUTBOUND_HTTP_FAILFAST_TIMEOUT";
        let mesh = impatient().env(failfast, "5s").start().await;
        mesh.policy("web").set(Policy::forward(server.addr()));
        let reply = soon(mesh.http2().await.get("http://web/")).await.unwrap();
        answered(&mesh.proxy, &reply, reason).await
    };
    connection_lost => async |reason: &'static str| {
        let server = Server::start(|_| async { Err(Fail::Close) }).await;
        of_server(server.addr(), reason).await
    };
    invalid_response => async |reason: &'static str| {
        let server: Tcp = Tcp::answers(b"220 mail.example ESMTP\r\n\r\n").await;
        of_server(server.addr(), reason).await
    };
    endpoint_head_limit => async |reason: &'static str| {
        // Its library takes 16 KiB, and says so.
        let server = Server::says("hello").await;
        let mesh = impatient().start().await;
        mesh.policy("web").set(Policy::forward(Endpoint::new(server.addr()).h2()));
        let mut client = mesh.http1().await;
        let mut large = linkerd_tests::get("http://web/");
        large.headers_mut().insert("cookie", "x".repeat(17_000).parse().unwrap());
        let reply = soon(client.send(large)).await.unwrap();
        assert_eq!(server.requests(), 0);
        answered(&mesh.proxy, &reply, reason).await
    };
    upgraded_reset => async |reason: &'static str| {
        let server = Server::start(|_| async { Err(Fail::Reset(h2::Reason::CANCEL)) }).await;
        let mesh = impatient().start().await;
        mesh.policy("web").set(Policy::forward(Endpoint::new(server.addr()).h2()));
        let post = request(Method::POST, "http://web/", body("data"));
        let reply = soon(mesh.http1().await.send(post)).await.unwrap();
        answered(&mesh.proxy, &reply, reason).await
    };
    stream_refused => async |reason: &'static str| reset(h2::Reason::REFUSED_STREAM, reason).await;
    stream_reset => async |reason: &'static str| reset(h2::Reason::ENHANCE_YOUR_CALM, reason).await;
    identity_required => async |reason: &'static str| {
        let server = Server::says("hello").await;
        let mesh = impatient().start().await;
        mesh.service("web", [server.addr()]);
        let mut request = linkerd_tests::get("http://web/");
        let identity = "web.default".parse().unwrap();
        request.headers_mut().insert("l5d-require-id", identity);
        let reply = soon(mesh.http1().await.send(request)).await.unwrap();
        answered(&mesh.proxy, &reply, reason).await
    };
}

async fn got(mesh: &Mesh, reason: &'static str) -> Seen {
    answered(&mesh.proxy, &mesh.get("http://web/").await, reason).await
}

async fn forward(addr: SocketAddr, reason: &'static str) -> Seen {
    let builder = impatient().env("LINKERD2_PROXY_OUTBOUND_CONNECT_TIMEOUT", "200ms");
    let mesh = builder.start().await;
    mesh.policy("web").set(Policy::forward(addr));
    got(&mesh, reason).await
}

async fn of_server(addr: SocketAddr, reason: &'static str) -> Seen {
    let mesh = impatient().start().await;
    mesh.service("web", [addr]);
    let post = request(Method::POST, "http://web/", body("data"));
    let reply = soon(mesh.http1().await.send(post)).await.unwrap();
    answered(&mesh.proxy, &reply, reason).await
}

/// The endpoint's reset is passed on, so that there is no answer.
async fn reset(code: h2::Reason, reason: &'static str) -> Seen {
    let server = Server::start(move |_| async move { Err(Fail::Reset(code)) }).await;
    let mesh = impatient().start().await;
    mesh.service("web", [server.addr()]);
    let post = request(Method::POST, "http://web/", body("data"));
    let _ = soon(mesh.http2().await.send(post)).await;
    unanswered(&mesh.proxy, reason).await
}

/// Whether an HTTP/2 client has sent a frame of type HEADERS (RFC 9113, sections 3.4, 4.1 and 6.2).
fn has_headers(sent: &[u8]) -> bool {
    let mut rest = sent
        .get(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len()..)
        .unwrap_or_default();
    while let [a, b, c, kind, ..] = *rest {
        if kind == 1 {
            return true;
        }
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        rest = rest.get(9 + length..).unwrap_or_default();
    }
    false
}
