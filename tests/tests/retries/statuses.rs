//! Retries by status.

use crate::{Retried, policy, retried};
use http::StatusCode;
use linkerd_control::{RouteFilter, RouteRetry, RouteRule};
use linkerd_tests::{Server, reply, soon};
use std::time::Duration;

#[tokio::test]
async fn a_status_that_the_policy_names_is_retried_until_it_is_another() {
    let web = Retried::with(retried()).await;
    for (statuses, expected, attempts) in [
        (&[200][..], 200, 1),
        (&[500, 200], 200, 2),
        (&[503, 599, 201], 201, 3),
        (&[500, 404], 404, 2),
        (&[404], 404, 1),
        (&[429], 429, 1),
    ] {
        let before = web.server.requests();
        web.answer(statuses.iter().copied());
        let reply = web.get().await;
        assert_eq!(reply.status, expected, "{statuses:?}");
        assert_eq!(reply.text(), expected.to_string(), "the last answer's body");
        assert_eq!(web.server.requests() - before, attempts, "{statuses:?}");
    }
    assert_eq!(web.counter("requests", &[]).await, 4.0);
    assert_eq!(
        web.counter("successes", &[("route_name", "main")]).await,
        3.0
    );
    assert_eq!(web.counter("limit_exceeded", &[]).await, 0.0);
    assert_eq!(web.counter("overflow", &[]).await, 0.0);
}

#[tokio::test]
async fn the_last_answer_is_passed_on_when_the_limit_is_reached() {
    let web = Retried::with(retried()).await;
    web.answer([500, 501, 502, 200]);
    let reply = web.get().await;
    assert_eq!((reply.status.as_u16(), reply.text()), (502, "502"));
    assert_eq!(web.server.requests(), 3);
    assert_eq!(web.counter("limit_exceeded", &[]).await, 1.0);
    assert_eq!(web.counter("requests", &[]).await, 2.0);
    assert_eq!(web.counter("successes", &[]).await, 0.0);
    let statuses = "outbound_http_route_request_statuses_total";
    let backend = "outbound_http_route_backend_response_statuses_total";
    let metrics = web.mesh.proxy.metrics().await;
    assert_eq!(metrics.sum(statuses, &[]), 1.0, "once for the route");
    assert_eq!(
        metrics.sum(backend, &[]),
        3.0,
        "each attempt for the backend"
    );
}

#[tokio::test]
async fn a_failure_that_the_policy_does_not_name_is_counted_as_such() {
    let web = Retried::with(RouteRule::new().retry(RouteRetry::new(2).status(502..=504))).await;
    web.answer([500]);
    assert_eq!(web.get().await.status, 500);
    assert_eq!(web.server.requests(), 1);
    let reason = [("reason", "not_allowed")];
    assert_eq!(web.counter("skipped", &reason).await, 1.0);
}

#[tokio::test]
async fn an_endpoint_that_refuses_connections_is_retried_by_the_status_that_stands_for_it() {
    let mut web = Retried::with(retried()).await;
    web.server.stop().await;
    let reply = web.get().await;
    assert!(reply.status.is_server_error(), "{reply:?}");
    web.server.restart();
    soon(async { while web.get().await.status != 200 {} }).await;
}

#[tokio::test]
async fn pauses_between_attempts_are_within_their_bounds() {
    let backoff = RouteRetry::new(2).status(500..=500);
    let backoff = backoff.backoff(Duration::from_millis(50), Duration::from_millis(100));
    let web = Retried::with(RouteRule::new().retry(backoff)).await;
    web.answer([500, 500]);
    let start = tokio::time::Instant::now();
    assert_eq!(web.get().await.status, 200);
    assert!(start.elapsed() >= Duration::from_millis(150));
}

#[tokio::test]
async fn filters_apply_to_each_attempt_and_their_answers_are_not_retried() {
    let fails = retried().filter(RouteFilter::fail(503, "on purpose"));
    let web = Retried::with(fails).await;
    let reply = web.get().await;
    assert_eq!(reply.status, 503);
    assert_eq!(reply.header("l5d-proxy-error"), Some("on purpose"));
    assert_eq!(web.server.requests(), 0);
    assert_eq!(web.counter("requests", &[]).await, 0.0);
}

#[tokio::test]
async fn an_update_of_the_policy_applies_to_the_next_request() {
    let web = Retried::with(RouteRule::new()).await;
    web.answer([500]);
    let mut client = web.mesh.http1().await;
    assert_eq!(soon(client.get("http://web/")).await.unwrap().status, 500);
    web.mesh.policy("web").set(policy(retried()));
    let applied = async {
        loop {
            web.answer([500]);
            if client.get("http://web/").await.unwrap().status == 200 {
                break;
            }
        }
    };
    soon(applied).await;
}

#[tokio::test]
async fn a_retry_prefers_an_endpoint_that_has_not_failed_the_request() {
    let web = Retried::with(retried()).await;
    let broken = Server::start(|_| async {
        let mut failed = reply("broken")?;
        *failed.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        Ok(failed)
    })
    .await;
    web.mesh.service("web", [web.server.addr(), broken.addr()]);
    web.mesh.policy("web").set(policy(retried()));
    for _ in 0..50 {
        assert_eq!(web.get().await.status, 200);
    }
    assert!(broken.requests() > 0, "it is asked, too");
    // No request was sent to the broken server twice.
    let retries = web.counter("requests", &[]).await;
    assert_eq!(retries, broken.requests() as f64);
}
