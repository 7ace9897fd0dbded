//! Injected failures.

use crate::{Routed, named, outcome, policy};
use linkerd_api_proto::http_route::RequestRedirect;
use linkerd_control::{RouteFilter, RouteMatch, RouteRule};
use linkerd_tests::{Load, Message, soon};
use std::time::Duration;
use tonic::Code;

#[tokio::test]
async fn a_failure_has_its_status_and_its_text_alone() {
    let fails = |path: &str, status| {
        RouteRule::new()
            .when(RouteMatch::exact(path))
            .filter(RouteFilter::fail(status, "on purpose"))
    };
    let on_backend = RouteRule::new()
        .when(RouteMatch::exact("/backend"))
        .backend_filter(RouteFilter::fail(418, "of the backend"));
    let rules = [
        fails("/503", 503),
        fails("/404", 404),
        fails("/200", 200),
        on_backend,
    ];
    let routed = Routed::with(rules).await;
    let mut client = routed.mesh.http1().await;
    for (path, status, message) in [
        ("/503", 503, "on purpose"),
        ("/404", 404, "on purpose"),
        ("/200", 200, "on purpose"),
        ("/backend", 418, "of the backend"),
    ] {
        let reply = client.get(&format!("http://web{path}")).await.unwrap();
        assert_eq!(reply.status, status);
        assert_eq!(reply.header("l5d-proxy-error"), Some(message));
        assert_eq!(reply.header("connection"), None);
        assert_eq!(reply.header("l5d-proxy-connection"), None);
    }
    assert_eq!(routed.server.requests(), 0);
}

#[tokio::test]
async fn a_failure_by_status_is_a_failed_precondition_of_a_grpc_call() {
    let rule = RouteRule::new().filter(RouteFilter::fail(503, "on purpose"));
    let routed = Routed::start(policy([rule]).http2()).await;
    let grpc = routed.mesh.grpc("web").await;
    for _ in 0..2 {
        let status = soon(grpc.unary(Message::default())).await.unwrap_err();
        let found = (status.code(), status.message());
        assert_eq!(found, (Code::FailedPrecondition, "on purpose"));
    }
}

/// A rollout that sets every weight to 0 for a moment must not fail the service's other rules.
#[tokio::test]
async fn a_rule_whose_weights_are_all_0_fails_its_own_requests_alone() {
    let weightless = |path: &str| {
        let rule = RouteRule::new().when(RouteMatch::exact(path));
        rule.split([("a", 80, 0), ("b", 80, 0)])
    };
    let redirect = RouteFilter::Redirect(RequestRedirect {
        host: "other.test".to_owned(),
        ..Default::default()
    });
    let routed = Routed::with([
        weightless("/none"),
        weightless("/moved").filter(redirect),
        named("rest", RouteMatch::prefix("/")),
    ])
    .await;
    let mut client = routed.mesh.http1().await;
    for _ in 0..2 {
        let reply = client.get("http://web/none").await.unwrap();
        assert_eq!(reply.status, 500);
        let error = reply.header("l5d-proxy-error").unwrap();
        assert!(
            error.ends_with("no backend has a weight above 0"),
            "{error}"
        );
        assert!(error.contains("HTTPRoute.default.main"), "{error}");
        // The connection stays open for the other rules.
        let reply = client.get("http://web/rest").await.unwrap();
        assert_eq!(outcome(&reply), "rest");
        let reply = client.get("http://web/moved").await.unwrap();
        assert_eq!(outcome(&reply), "301");
    }
    let http2 = routed.mesh.http2().await.get("http://web/none").await;
    assert_eq!(http2.unwrap().status, 500);
    let labels = [("reason", "no_backend")];
    let metrics = routed.mesh.proxy.metrics().await;
    assert_eq!(metrics.sum("proxy_failures_total", &labels), 3.0);
}

#[tokio::test]
async fn a_share_of_the_requests_fails() {
    let rule = |path: &str, numerator, denominator| {
        let fails = RouteFilter::fail(503, "on purpose").ratio(numerator, denominator);
        named("passed", RouteMatch::prefix(path)).filter(fails)
    };
    let routed = Routed::with([
        rule("/never", 0, 3),
        rule("/some", 1, 4),
        rule("/all", 2, 2),
    ])
    .await;
    for (path, shares) in [
        ("/never", 0.0..=0.0),
        ("/some", 0.15..=0.35),
        ("/all", 1.0..=1.0),
    ] {
        let uri = format!("http://web{path}");
        let load = Load::http1(&routed.mesh, 4, Duration::ZERO, &uri);
        load.more(600).await;
        let report = load.stop().await;
        let failed = report.failures.values().sum::<usize>();
        let share = failed as f64 / (failed + report.total()) as f64;
        assert!(shares.contains(&share), "{path}: {report:?}");
        let texts: Vec<_> = report.failures.into_keys().collect();
        assert!(
            texts
                .iter()
                .all(|text| text == "503 Service Unavailable on purpose"),
            "{texts:?}"
        );
    }
}

#[tokio::test]
async fn the_first_filter_that_answers_decides_and_the_routes_come_before_the_backends() {
    let redirect = || {
        RouteFilter::Redirect(RequestRedirect {
            host: "other.test".to_owned(),
            ..Default::default()
        })
    };
    let fail = || RouteFilter::fail(418, "on purpose");
    let rule = |path: &str| RouteRule::new().when(RouteMatch::exact(path));
    let routed = Routed::with([
        rule("/fail-first").filter(fail()).filter(redirect()),
        rule("/redirect-first").filter(redirect()).filter(fail()),
        rule("/route-first")
            .filter(redirect())
            .backend_filter(fail()),
        rule("/passing-first")
            .filter(RouteFilter::fail(500, "never").ratio(0, 1))
            .backend_filter(fail()),
    ])
    .await;
    for (path, expected) in [
        ("/fail-first", "418"),
        ("/redirect-first", "301"),
        ("/route-first", "301"),
        ("/passing-first", "418"),
    ] {
        let reply = routed.get(&format!("http://web{path}")).await;
        assert_eq!(outcome(&reply), expected, "{path}");
    }
}
