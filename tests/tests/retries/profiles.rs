//! Retries of service profiles, within their budget.

use crate::{NEVER, Retried};
use http::Method;
use linkerd_control::{
    Profile, ProfileMatch, ProfileRoute, ResponseClass, ResponseMatch, RouteRule,
};
use linkerd_tests::{body, request, soon};
use std::time::Duration;

const NAME: &str = "web.default.svc.cluster.local";
const TTL: Duration = Duration::from_secs(10);

/// A mesh whose service has a profile with this route and budget.
async fn with(route: ProfileRoute, ratio: f32, min_per_second: u32) -> Retried {
    let profile = Profile::new(NAME)
        .route(route)
        .retry_budget(ratio, min_per_second, TTL);
    start(profile).await
}

async fn start(profile: Profile) -> Retried {
    let web = Retried::with(RouteRule::new()).await;
    let dst = format!("{NAME}:80");
    let policy = crate::policy(RouteRule::new());
    web.mesh.controller.policy(&dst).set(policy);
    web.mesh.controller.profile(&dst).set(profile);
    web
}

fn retryable() -> ProfileRoute {
    ProfileRoute::new(ProfileMatch::path("/.*"))
        .label("route", "r")
        .retryable()
}

/// Sends a request to a server with these statuses; returns the final status and the number of attempts.
async fn get(web: &Retried, path: &str, statuses: &[u16]) -> (u16, usize) {
    let before = web.server.requests();
    web.answer(statuses.iter().copied());
    let reply = web.mesh.get(&format!("http://{NAME}{path}")).await;
    web.answers.lock().clear();
    (reply.status.as_u16(), web.server.requests() - before)
}

#[tokio::test]
async fn a_failure_of_a_retryable_route_is_retried_as_often_as_need_be() {
    let web = with(retryable(), 0.2, 10).await;
    assert_eq!(get(&web, "/", &[500]).await, (200, 2));
    assert_eq!(get(&web, "/", &[500; 20]).await, (200, 21));
    assert_eq!(get(&web, "/", &[404]).await, (404, 1));
    let metrics = web.mesh.proxy.metrics().await;
    let labels = [("rt_route", "r")];
    assert_eq!(metrics.sum("route_retryable_total", &labels), 21.0);
    assert_eq!(metrics.sum("route_request_total", &labels), 3.0);
    assert_eq!(metrics.sum("route_actual_request_total", &labels), 24.0);
    assert_eq!(metrics.sum("route_response_total", &labels), 3.0);
    assert_eq!(metrics.sum("route_actual_response_total", &labels), 24.0);
    for of_policies in [
        "request_statuses",
        "backend_requests",
        "backend_response_statuses",
    ] {
        let family = format!("outbound_http_route_{of_policies}_total");
        assert_eq!(metrics.sum(&family, &[]), 0.0, "{family}");
    }
}

#[tokio::test]
async fn a_budget_that_is_used_up_ends_the_retries_and_is_counted() {
    let web = with(retryable(), 0.0, 1).await;
    // The budget's reserve of ten seconds.
    assert_eq!(get(&web, "/", &[500; 30]).await, (500, 11));
    assert_eq!(get(&web, "/", &[500; 30]).await.0, 500);
    let metrics = web.mesh.proxy.metrics().await;
    let skipped = [("skipped", "no_budget")];
    assert_eq!(metrics.sum("route_retryable_total", &skipped), 2.0);
}

#[tokio::test]
async fn requests_that_succeed_fill_the_budget() {
    let web = with(retryable(), 0.5, 0).await;
    assert_eq!(
        get(&web, "/", &[500]).await,
        (500, 1),
        "nothing is there yet"
    );
    for _ in 0..4 {
        assert_eq!(get(&web, "/", &[]).await, (200, 1));
    }
    assert_eq!(get(&web, "/", &[500; 2]).await, (200, 3));
    assert_eq!(get(&web, "/", &[500]).await.1, 1);
}

#[tokio::test]
async fn without_a_valid_budget_or_on_other_routes_nothing_is_retried() {
    let without = start(Profile::new(NAME).route(retryable())).await;
    assert_eq!(get(&without, "/", &[500]).await, (500, 1));
    for (ratio, ttl) in [
        (-1.0, TTL),
        (1001.0, TTL),
        (0.2, Duration::ZERO),
        (0.2, 7 * TTL),
    ] {
        let profile = Profile::new(NAME).route(retryable());
        let web = start(profile.retry_budget(ratio, 10, ttl)).await;
        assert_eq!(get(&web, "/", &[500]).await, (500, 1), "{ratio} {ttl:?}");
    }
    let some = ProfileRoute::new(ProfileMatch::path("/some")).retryable();
    let web = with(some, 0.2, 10).await;
    assert_eq!(get(&web, "/some", &[500]).await, (200, 2));
    assert_eq!(get(&web, "/other", &[500]).await, (500, 1));
}

#[tokio::test]
async fn the_classes_of_the_route_say_what_a_failure_is() {
    let class = |status| ResponseMatch::status(status..=status);
    let route = retryable()
        .class(ResponseClass::failure(class(418)))
        .class(ResponseClass::success(class(500)));
    let web = with(route, 0.2, 10).await;
    assert_eq!(get(&web, "/", &[418]).await, (200, 2));
    assert_eq!(get(&web, "/", &[500]).await, (500, 1));
    assert_eq!(get(&web, "/", &[503]).await, (200, 2));
}

#[tokio::test]
async fn small_bodies_are_sent_again_and_large_ones_are_not() {
    let web = with(retryable(), 0.2, 10).await;
    let mut client = web.mesh.http1().await;
    for (length, expected) in [(0, 200), (10, 200), (64 * 1024, 200), (64 * 1024 + 1, 500)] {
        web.answer([500]);
        let uri = format!("http://{NAME}/");
        let sent = request(Method::POST, &uri, body("x".repeat(length)));
        let reply = soon(client.send(sent)).await.unwrap();
        assert_eq!(reply.status, expected, "{length}");
        web.answers.lock().clear();
    }
    assert!(
        web.bodies
            .lock()
            .iter()
            .all(|body| [0, 10, 64 * 1024, 64 * 1024 + 1].contains(&body.len()))
    );
}

#[tokio::test]
async fn the_timeout_covers_all_attempts_and_closes_the_connection() {
    let web = with(retryable().timeout(Duration::from_millis(300)), 0.2, 10).await;
    web.answers
        .lock()
        .extend([(500, Duration::ZERO), (200, NEVER)]);
    let reply = web.mesh.get(&format!("http://{NAME}/")).await;
    assert_eq!(reply.status, 504);
    assert_eq!(reply.header("connection"), Some("close"));
    assert_eq!(web.server.requests(), 2);
}
