//! Bodies of requests that are sent again.

use crate::{Retried, retried};
use http::Method;
use http_body_util::BodyExt;
use linkerd_control::{RouteRetry, RouteRule};
use linkerd_tests::{Body, Server, body, from_channel, reply, request, soon};
use std::time::Duration;

fn post(body: Body) -> http::Request<Body> {
    request(Method::POST, "http://web/", body)
}

#[tokio::test]
async fn a_body_is_sent_again_whole_with_either_version() {
    let web = Retried::with(retried()).await;
    let text = "x".repeat(60_000);
    for http2 in [false, true] {
        web.answer([500, 503]);
        let sent = post(body(text.clone()));
        let reply = match http2 {
            false => soon(web.mesh.http1().await.send(sent)).await.unwrap(),
            true => soon(web.mesh.http2().await.send(sent)).await.unwrap(),
        };
        assert_eq!(reply.status, 200);
    }
    let bodies = web.bodies.lock().clone();
    assert_eq!(bodies.len(), 6);
    assert!(bodies.iter().all(|sent| *sent == text));
}

#[tokio::test]
async fn a_body_that_is_known_or_turns_out_to_be_too_large_is_sent_once() {
    let rule = RouteRule::new().retry(RouteRetry::new(2).status(500..=599).max_bytes(10));
    let web = Retried::with(rule).await;
    let mut client = web.mesh.http1().await;
    for (text, attempts) in [("0123456789", 2), ("0123456789a", 1)] {
        let before = web.server.requests();
        web.answer([500]);
        let reply = soon(client.send(post(body(text)))).await.unwrap();
        let expected = if attempts == 1 { 500 } else { 200 };
        assert_eq!(reply.status, expected, "{text}");
        assert_eq!(web.server.requests() - before, attempts);
    }
    // Without `content-length`, the size of the body is known only at its end.
    web.answer([500]);
    let (chunks, texts) = tokio::sync::mpsc::channel(8);
    for _ in 0..3 {
        chunks.send("01234").await.unwrap();
    }
    drop(chunks);
    let reply = soon(client.send(post(from_channel(texts)))).await.unwrap();
    assert_eq!(reply.status, 500);
    for reason in ["not_replayable", "body_too_large"] {
        let reason = [("reason", reason)];
        assert_eq!(web.counter("skipped", &reason).await, 1.0, "{reason:?}");
    }
}

#[tokio::test]
async fn the_limit_of_an_attempt_runs_from_the_end_of_its_own_body() {
    let limit = Duration::from_millis(300);
    let rule = RouteRule::new().retry(RouteRetry::new(2).status(500..=599).timeout(limit));
    let web = Retried::with(rule).await;
    for http2 in [false, true] {
        let before = web.server.requests();
        let slow = (200, Duration::from_millis(100));
        web.answers.lock().extend([(200, crate::NEVER), slow]);
        let sent = post(body("hello"));
        let reply = match http2 {
            false => soon(web.mesh.http1().await.send(sent)).await.unwrap(),
            true => soon(web.mesh.http2().await.send(sent)).await.unwrap(),
        };
        assert_eq!(reply.status, 200);
        assert_eq!(web.server.requests() - before, 2, "the second one answers");
    }
}

#[tokio::test]
async fn a_body_that_an_endpoint_goes_on_reading_is_not_sent_again() {
    // The server answers after the first piece of the body, and reads on.
    let server = Server::start(|request| async move {
        let mut incoming = request.into_body();
        let first = incoming.frame().await;
        tokio::spawn(async move { while incoming.frame().await.is_some() {} });
        assert!(first.is_some());
        let mut failed = reply("early")?;
        *failed.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
        Ok(failed)
    })
    .await;
    let web = Retried::with(retried()).await;
    web.mesh.service("web", [server.addr()]);
    web.mesh.policy("web").set(crate::policy(retried()));
    let (chunks, texts) = tokio::sync::mpsc::channel(8);
    chunks.send("first").await.unwrap();
    let client = web.mesh.http2().await;
    let answered = tokio::spawn(async move { client.send(post(from_channel(texts))).await });
    let reply = tokio::time::timeout(Duration::from_secs(20), answered);
    let reply = reply.await.unwrap().unwrap().unwrap();
    drop(chunks);
    assert_eq!((reply.status.as_u16(), reply.text()), (500, "early"));
    assert_eq!(server.requests(), 1);
    let reason = [("reason", "request_unfinished")];
    assert_eq!(web.counter("skipped", &reason).await, 1.0);
}
