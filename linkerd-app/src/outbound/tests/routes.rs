//! Several routes of a policy, and their filters.

use super::{TestProxy, backend, forward, in_process, policy};
use crate::testing::TestEndpoint;
use http::StatusCode;
use linkerd_profiles::{
    ClientPolicy, Distribution, FailureInjector, HttpBackend, HttpFilter, HttpMatch,
    InjectedFailure, Meta, PathMatch, Protocol, Ratio, RequestMatch, RouteRule, RouteTable,
};
use std::{sync::Arc, time::Duration};

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
