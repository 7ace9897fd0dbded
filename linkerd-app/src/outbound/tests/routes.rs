//! Several routes of a policy, and their filters.

use super::{TestProxy, backend, forward, in_process, policy};
use crate::testing::{TestEndpoint, TestResponse};
use futures::StreamExt;
use http::StatusCode;
use linkerd_profiles::{
    ClientPolicy, Distribution, FailureInjector, HttpBackend, HttpFilter, HttpMatch,
    InjectedFailure, Meta, PathMatch, Protocol, Ratio, RequestMatch, RouteRule, RouteTable,
    Timeouts,
};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

const WEB: &str = "10.1.0.1:80";
const A: &str = "10.0.0.1:8080";
const B: &str = "10.0.0.2:8080";

/// A rule for paths below a prefix.
fn below(prefix: &str, distribution: Distribution) -> RouteRule {
    let condition = HttpMatch {
        path: Some(PathMatch::Prefix(prefix.to_owned())),
        ..HttpMatch::default()
    };
    RouteRule {
        matches: vec![RequestMatch::Http(condition)],
        ..RouteRule::for_all(
            Arc::new(Meta::new_default(prefix.trim_start_matches('/'))),
            distribution.map(HttpBackend::from),
        )
    }
}

fn routes(rules: Vec<RouteRule>) -> ClientPolicy {
    ClientPolicy {
        protocol: Protocol::Http1(Arc::new(RouteTable::new(rules))),
        ..policy(Distribution::Empty)
    }
}

fn failing() -> HttpFilter {
    HttpFilter::InjectFailure(FailureInjector {
        failure: InjectedFailure::Status(StatusCode::IM_A_TEAPOT),
        message: "on purpose".to_owned(),
        ratio: Ratio::ALL,
    })
}

fn statuses(proxy: &TestProxy, route: &str) -> f64 {
    let label = format!("route_name=\"{route}\"");
    let family = "outbound_http_route_request_statuses_total";
    proxy.metric(family, &[&label])
}

#[tokio::test(start_paused = true)]
async fn a_request_goes_where_its_path_leads_and_nowhere_without_a_route() {
    in_process(async |proxy| {
        let rules = vec![below("/a", forward(A)), below("/b", forward(B))];
        proxy.source.set_policy(WEB, routes(rules));
        let _a = TestEndpoint::answering(&proxy.network, A, "a");
        let _b = TestEndpoint::answering(&proxy.network, B, "b");
        let mut client = proxy.http1(WEB).await;
        for (path, expected) in [("/b/x", Some("b")), ("/a", Some("a")), ("/ab", None)] {
            let response = client.get(path).await;
            match expected {
                Some(text) => assert_eq!(response.body.as_deref(), Some(text)),
                None => assert_eq!(response.head.status, StatusCode::NOT_FOUND),
            }
        }
        assert_eq!((statuses(&proxy, "a"), statuses(&proxy, "b")), (1.0, 1.0));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_injected_failure_counts_as_its_status_and_keeps_the_connection() {
    in_process(async |proxy| {
        let on_route = RouteRule {
            filters: vec![failing()],
            ..below("/route", forward(A))
        };
        let on_backend = RouteRule {
            distribution: forward(A).map(|backend| HttpBackend {
                filters: vec![failing()],
                backend,
            }),
            ..below("/backend", Distribution::Empty)
        };
        let rules = vec![on_route, on_backend, below("/", forward(A))];
        proxy.source.set_policy(WEB, routes(rules));
        let endpoint = TestEndpoint::answering(&proxy.network, A, "a");
        let mut client = proxy.http1(WEB).await;
        for path in ["/route", "/backend"] {
            let response = client.get(path).await;
            assert_eq!(response.head.status, StatusCode::IM_A_TEAPOT);
            assert_eq!(response.head.headers["l5d-proxy-error"], "on purpose");
        }
        let family = "outbound_http_route_request_statuses_total";
        let teapots = proxy.metric(family, &["http_status=\"418\"", "error=\"\""]);
        assert_eq!(teapots, 2.0);
        let response = client.get("/").await;
        assert_eq!(response.body.as_deref(), Some("a"));
        assert_eq!(endpoint.requests(), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_backend_survives_an_update_whose_route_was_not_asked_for_yet() {
    in_process(async |proxy| {
        let rules = vec![below("/a", backend("web:80"))];
        proxy.source.set_policy(WEB, routes(rules));
        proxy.source.set_endpoints("web:80", &[A]);
        let endpoint = TestEndpoint::answering(&proxy.network, A, "a");
        let mut client = proxy.http1(WEB).await;
        assert_eq!(client.get("/a").await.body.as_deref(), Some("a"));
        let rules = vec![
            below("/b", forward(B)),
            below("/a/deeper", backend("web:80")),
        ];
        proxy.source.set_policy(WEB, routes(rules));
        proxy.settle().await;
        assert_eq!(client.get("/a").await.head.status, StatusCode::NOT_FOUND);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(client.get("/a/deeper").await.body.as_deref(), Some("a"));
        assert_eq!(endpoint.requests(), 2);
        let balancers = ["name=\"balance\""];
        let created = proxy.metric("stack_create_total", &balancers);
        assert_eq!(created, 1.0, "its balancer was kept, and so its connection");
        let rules = vec![below("/b", forward(B))];
        proxy.source.set_policy(WEB, routes(rules));
        proxy.settle().await;
        assert_eq!(client.get("/a").await.head.status, StatusCode::NOT_FOUND);
        proxy.settle().await;
        let dropped = proxy.metric("stack_drop_total", &balancers);
        assert_eq!(dropped, 1.0, "nobody names it any more");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_limit_ends_a_response_that_does_not_begin_and_one_that_does_not_go_on() {
    in_process(async |proxy| {
        let limited = |path: &str, timeouts| RouteRule {
            timeouts,
            ..below(path, forward(A))
        };
        let (none, limit) = (Timeouts::default(), Some(Duration::from_secs(2)));
        let (request, response, idle) = (limit, limit, limit);
        let rules = vec![
            limited("/request", Timeouts { request, ..none }),
            limited("/response", Timeouts { response, ..none }),
            limited("/idle", Timeouts { idle, ..none }),
        ];
        proxy.source.set_policy(WEB, routes(rules));
        let (_endpoint, mut bodies) = TestEndpoint::streaming(&proxy.network, A);
        for (path, error) in [
            ("/request", "REQUEST_TIMEOUT"),
            ("/response", "RESPONSE_STREAM_TIMEOUT"),
            ("/idle", "IDLE_TIMEOUT"),
        ] {
            let mut client = proxy.http1(WEB).await;
            let answered = client.send(path, "a body").await;
            let body = bodies.next().await.unwrap();
            let response = answered.await.unwrap();
            assert_eq!(response.status(), StatusCode::OK);
            let start = Instant::now();
            let read = async {
                let read = TestResponse::read(response).await;
                (read, start.elapsed().as_secs())
            };
            // Two frames, each of which restarts the idle limit.
            let write = async {
                for _ in 0..2 {
                    tokio::time::sleep(Duration::from_millis(1500)).await;
                    let _ = body.unbounded_send(Ok("frame"));
                }
                std::future::pending::<()>().await;
            };
            let (read, took) = tokio::select! {
                read = read => read,
                () = write => unreachable!(),
            };
            assert_eq!(read.body, None, "it broke off");
            assert_eq!(took, if path == "/idle" { 5 } else { 2 }, "{path}");
            proxy.settle().await;
            let error = format!("error=\"{error}\"");
            let family = "outbound_http_route_request_statuses_total";
            let counted = proxy.metric(family, &["http_status=\"200\"", &error]);
            assert_eq!(counted, 1.0, "{path}");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_request_limit_counts_the_wait_for_an_endpoint() {
    in_process(async |proxy| {
        let rule = RouteRule {
            timeouts: Timeouts {
                request: Some(Duration::from_secs(1)),
                ..Timeouts::default()
            },
            ..below("/", backend("web:80"))
        };
        proxy.source.set_policy(WEB, routes(vec![rule]));
        let mut client = proxy.http1(WEB).await;
        let start = Instant::now();
        let response = client.get("/").await;
        assert_eq!(start.elapsed().as_secs(), 1);
        assert_eq!(response.head.status, StatusCode::GATEWAY_TIMEOUT);
        let message = &response.head.headers["l5d-proxy-error"];
        let text = "timed out waiting for response headers: ";
        let message = message.to_str().unwrap();
        assert!(message.contains(text), "{message}");
        let why = "; the backend had no ready endpoint: the control plane has not answered yet";
        assert!(message.ends_with(why), "{message}");
        let again = client.get("/").await;
        assert_eq!(
            again.head.status,
            StatusCode::GATEWAY_TIMEOUT,
            "same connection"
        );
    })
    .await;
}
