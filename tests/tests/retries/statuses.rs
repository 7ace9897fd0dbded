//! Retries by status.

use crate::{Retried, policy, retried};
use futures::future::join_all;
use http::StatusCode;
use linkerd_control::{EndpointSet, RouteFilter, RouteRetry, RouteRule};
use linkerd_tests::{Fail, Mesh, Server, refused, reply, soon};
use std::{
    net::SocketAddr,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::Duration,
};

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

/// A mesh whose requests wait for an endpoint for a short time.
async fn impatient(endpoint: SocketAddr) -> Mesh {
    let failfast = "LINKERD2_PROXY_OUTBOUND_HTTP_FAILFAST_TIMEOUT";
    let mesh = Mesh::builder().env(failfast, "300ms").start().await;
    mesh.service("web", [endpoint]);
    mesh
}

#[tokio::test]
async fn an_endpoint_that_refuses_connections_is_waited_for_and_no_backend_takes_a_retry() {
    let server = Server::says("hello").await;
    let (addr, _guard) = refused();
    let mesh = impatient(addr).await;
    mesh.policy("web").set(policy(retried()));
    let reply = mesh.get("http://web/").await;
    assert_eq!(reply.status, 502);
    let status = reply.header("proxy-status").unwrap();
    assert!(status.contains("details=\"connect_refused\""), "{status}");
    let metrics = mesh.proxy.metrics().await;
    let counter = |name| metrics.sum(&format!("outbound_http_route_retry_{name}_total"), &[]);
    assert_eq!((counter("overflow"), counter("requests")), (1.0, 0.0));
    mesh.endpoints("web").set(EndpointSet::new([server.addr()]));
    soon(async { while mesh.get("http://web/").await.status != 200 {} }).await;
}

#[tokio::test]
async fn an_endpoint_that_refuses_connections_is_retried_at_another_backend_by_its_status() {
    let server = Server::says("hello").await;
    let (addr, _guard) = refused();
    let mesh = impatient(addr).await;
    mesh.service("other", [server.addr()]);
    let split = retried().split([("web", 80, 1), ("other", 80, 1)]);
    mesh.policy("web").set(policy(split));
    let requests = 30;
    for reply in soon(join_all((0..requests).map(|_| mesh.get("http://web/")))).await {
        assert_eq!(reply.status, 200, "{reply:?}");
    }
    let metrics = mesh.proxy.metrics().await;
    let counter = |name| metrics.sum(&format!("outbound_http_route_retry_{name}_total"), &[]);
    assert!(counter("requests") > 0.0, "some went to the first backend");
    assert_eq!(counter("requests"), counter("successes"));
    assert_eq!(server.requests(), requests);
}

#[tokio::test]
async fn a_stream_that_is_refused_is_retried_whatever_the_statuses() {
    let seen = AtomicUsize::new(0);
    // A balancer sends a refused request four times itself.
    let refusals = 5;
    let server = Server::start(move |_| {
        let is_refused = seen.fetch_add(1, SeqCst) < refusals;
        async move {
            match is_refused {
                true => Err(Fail::Reset(h2::Reason::REFUSED_STREAM)),
                false => reply("hello"),
            }
        }
    })
    .await;
    let mesh = Mesh::with(&server).await;
    let rule = RouteRule::new().retry(RouteRetry::new(2).status(599..=599));
    mesh.policy("web").set(policy(rule));
    let reply = soon(mesh.http2().await.get("http://web/")).await.unwrap();
    assert_eq!((reply.status.as_u16(), reply.text()), (200, "hello"));
    assert_eq!(server.requests(), refusals + 1);
    let metrics = mesh.proxy.metrics().await;
    let counter = |name| metrics.sum(&format!("outbound_http_route_retry_{name}_total"), &[]);
    assert!(counter("requests") >= 1.0);
    assert_eq!(counter("successes"), 1.0);
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
