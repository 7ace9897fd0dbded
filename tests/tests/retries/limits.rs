//! Time limits of requests and of their attempts.

use crate::{AT_ONCE, NEVER, Retried, retried};
use futures::future::join_all;
use http::Method;
use linkerd_control::{RouteRetry, RouteRule, RouteTimeouts};
use linkerd_tests::{from_channel, request, soon};
use std::time::Duration;
use tokio::time::Instant;

const SHORT: Duration = Duration::from_millis(100);

/// A rule with a time limit for each attempt.
fn limited(retries: u32) -> RouteRule {
    RouteRule::new().retry(RouteRetry::new(retries).status(500..=599).timeout(SHORT))
}

#[tokio::test]
async fn an_attempt_that_takes_too_long_is_given_up_for_another() {
    let web = Retried::with(limited(2)).await;
    web.answers.lock().extend([(200, NEVER), (503, AT_ONCE)]);
    assert_eq!(web.get().await.status, 200);
    assert_eq!(web.server.requests(), 3);
    assert_eq!(web.counter("successes", &[]).await, 1.0);
}

#[tokio::test]
async fn the_last_attempt_has_no_limit_of_its_own() {
    let web = Retried::with(limited(1)).await;
    let slow = (202, 5 * SHORT);
    web.answers.lock().extend([slow, slow]);
    assert_eq!(web.get().await.status, 202);
    assert_eq!(web.server.requests(), 2);
}

#[tokio::test]
async fn slow_answers_are_not_given_up_when_the_budget_is_used_up() {
    let web = Retried::with(limited(1)).await;
    web.answers.lock().extend([(200, 4 * SHORT); 400]);
    // Each worker has a reserve of at most 100 retries.
    let gets = (0..150).map(|_| web.get());
    for reply in soon(join_all(gets)).await {
        assert_eq!(reply.status, 200, "{reply:?}");
    }
    let skipped = web.counter("skipped", &[("reason", "budget")]).await;
    assert!(skipped > 0.0, "{skipped}");
    let retries = web.counter("requests", &[]).await;
    assert_eq!(retries + skipped, 150.0, "each of them is late once");
}

#[tokio::test]
async fn a_slow_answer_to_a_body_that_was_too_large_to_be_kept_is_not_given_up() {
    let retry = RouteRetry::new(2).status(500..=599);
    let rule = RouteRule::new().retry(retry.timeout(SHORT).max_bytes(10));
    let web = Retried::with(rule).await;
    web.answers.lock().extend([(200, 4 * SHORT)]);
    let (chunks, texts) = tokio::sync::mpsc::channel(8);
    for _ in 0..3 {
        chunks.send("01234").await.unwrap();
    }
    drop(chunks);
    let sent = request(Method::POST, "http://web/", from_channel(texts));
    let reply = soon(web.mesh.http1().await.send(sent)).await.unwrap();
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(web.server.requests(), 1);
    let reason = [("reason", "body_too_large")];
    assert_eq!(web.counter("skipped", &reason).await, 1.0);
}

#[tokio::test]
async fn the_requests_limit_holds_for_all_attempts() {
    let rule = limited(100).timeouts(RouteTimeouts::new().request(5 * SHORT));
    let web = Retried::with(rule).await;
    web.answers.lock().extend([(200, NEVER); 100]);
    let start = Instant::now();
    let reply = web.get().await;
    assert_eq!(reply.status, 504);
    assert_eq!(reply.header("connection"), None, "the connection stays");
    assert!(start.elapsed() >= 5 * SHORT);
    assert!((2..=6).contains(&web.server.requests()));
    let labels = [("error", "REQUEST_TIMEOUT")];
    let statuses = "outbound_http_route_request_statuses_total";
    let metrics = web.mesh.proxy.metrics().await;
    assert_eq!(metrics.sum(statuses, &labels), 1.0);
}

#[tokio::test]
async fn a_pause_beyond_the_requests_limit_is_not_begun() {
    let minute = Duration::from_secs(60);
    let retry = RouteRetry::new(2).status(500..=599).backoff(minute, minute);
    let timeouts = RouteTimeouts::new().request(Duration::from_secs(30));
    let web = Retried::with(RouteRule::new().retry(retry).timeouts(timeouts)).await;
    web.answer([500]);
    assert_eq!(web.get().await.status, 500);
    let reason = [("reason", "deadline")];
    assert_eq!(web.counter("skipped", &reason).await, 1.0);
}

#[tokio::test]
async fn the_responses_limit_is_that_of_each_attempt_and_is_not_retried() {
    let rule = retried().timeouts(RouteTimeouts::new().response(3 * SHORT));
    let web = Retried::with(rule).await;
    let slow = (500, 2 * SHORT);
    web.answers.lock().extend([slow, slow]);
    assert_eq!(web.get().await.status, 200, "all of them take longer");
    web.answers.lock().extend([(200, NEVER)]);
    let before = web.server.requests();
    assert_eq!(web.get().await.status, 504);
    assert_eq!(web.server.requests() - before, 1);
}

#[tokio::test]
async fn the_only_attempt_within_its_limit_is_answered_by_the_proxy() {
    let rule = RouteRule::new().retry(RouteRetry::new(0).status(500..=599).timeout(SHORT));
    let web = Retried::with(rule).await;
    web.answers
        .lock()
        .extend([(200, 3 * SHORT), (500, AT_ONCE)]);
    assert_eq!(web.get().await.status, 200, "it is the last one");
    assert_eq!(web.get().await.status, 500);
    assert_eq!(web.counter("limit_exceeded", &[]).await, 1.0);
}

#[tokio::test]
async fn an_attempt_with_a_limit_for_its_headers_is_retried_though_the_response_has_a_shorter_one()
{
    let retry = RouteRetry::new(1).status(500..=599).timeout(4 * SHORT);
    let timeouts = RouteTimeouts::new().response(2 * SHORT);
    let web = Retried::with(RouteRule::new().retry(retry).timeouts(timeouts)).await;
    web.answers.lock().extend([(200, NEVER), (201, AT_ONCE)]);
    assert_eq!(web.get().await.status, 201);
    assert_eq!(web.server.requests(), 2);
    // The last attempt has the limit of the response alone.
    web.answers.lock().extend([(200, NEVER), (200, NEVER)]);
    let reply = web.get().await;
    assert_eq!(reply.status, 504);
    let status = reply.header("proxy-status").unwrap_or_default();
    assert!(status.contains("details=\"response_timeout\""), "{status}");
    assert_eq!(web.server.requests(), 4);
}
