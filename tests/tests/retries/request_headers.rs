//! Timeouts and retries from request headers.

use crate::{NEVER, Retried, retried};
use http::Method;
use linkerd_control::{RouteRule, RouteTimeouts};
use linkerd_tests::{Reply, empty, request, soon};
use std::time::Duration;

async fn get(web: &Retried, headers: &[(&'static str, &str)]) -> Reply {
    let mut sent = request(Method::GET, "http://web/", empty());
    for (name, value) in headers {
        sent.headers_mut().insert(*name, value.parse().unwrap());
    }
    soon(web.mesh.http1().await.send(sent)).await.unwrap()
}

#[tokio::test]
async fn a_request_may_ask_for_a_timeout_where_the_route_allows_it() {
    let web = Retried::with(RouteRule::new().allow_request_headers()).await;
    for name in ["l5d-timeout", "l5d-request-timeout", "l5d-response-timeout"] {
        web.answers.lock().push_back((200, NEVER));
        assert_eq!(get(&web, &[(name, "100ms")]).await.status, 504, "{name}");
        let last = web.server.last();
        assert!(!last.headers.contains_key(name), "it is removed");
    }
    assert_eq!(get(&web, &[("l5d-timeout", "soon")]).await.status, 200);
}

#[tokio::test]
async fn a_request_may_ask_for_retries_where_the_route_allows_it() {
    let web = Retried::with(RouteRule::new().allow_request_headers()).await;
    for (headers, statuses, expected) in [
        (&[("l5d-retry-http", "5xx")][..], &[500][..], 200),
        (&[("l5d-retry-http", "5xx")], &[500, 501], 501),
        (&[("l5d-retry-http", "gateway-error")], &[500], 500),
        (&[("l5d-retry-http", "gateway-error")], &[502], 200),
        (&[("l5d-retry-http", "404,409-410")], &[410], 200),
        (
            &[("l5d-retry-http", "5xx"), ("l5d-retry-limit", "3")],
            &[500, 501, 502],
            200,
        ),
        (&[], &[500], 500),
    ] {
        web.answer(statuses.iter().copied());
        let reply = get(&web, headers).await;
        assert_eq!(reply.status, expected, "{headers:?} {statuses:?}");
        let last = web.server.last();
        assert!(
            last.headers
                .keys()
                .all(|name| !name.as_str().starts_with("l5d-retry"))
        );
        web.answers.lock().clear();
    }
}

#[tokio::test]
async fn a_requests_own_limits_come_before_the_routes() {
    let rule = retried()
        .timeouts(RouteTimeouts::new().request(Duration::from_secs(60)))
        .allow_request_headers();
    let web = Retried::with(rule).await;
    web.answer([500]);
    assert_eq!(get(&web, &[("l5d-retry-limit", "0")]).await.status, 500);
    web.answers.lock().push_back((200, NEVER));
    assert_eq!(get(&web, &[("l5d-timeout", "100ms")]).await.status, 504);
    let slow_then_fast = &[("l5d-retry-timeout", "100ms")];
    web.answers.lock().push_back((200, NEVER));
    assert_eq!(get(&web, slow_then_fast).await.status, 200);
}

#[tokio::test]
async fn elsewhere_the_headers_are_passed_on_and_mean_nothing() {
    let web = Retried::with(RouteRule::new()).await;
    web.answer([500]);
    let headers = [("l5d-retry-http", "5xx"), ("l5d-timeout", "1ms")];
    assert_eq!(get(&web, &headers).await.status, 500);
    let last = web.server.last();
    assert!(
        headers
            .iter()
            .all(|(name, _)| last.headers.contains_key(*name))
    );
}
