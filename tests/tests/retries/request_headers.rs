//! Timeouts and retries from request headers.

use crate::{NEVER, Retried, retried};
use http::Method;
use linkerd_control::{Policy, Route, RouteRule, RouteTimeouts};
use linkerd_tests::{Mesh, Reply, Server, empty, reply, request, soon};
use std::{
    sync::atomic::{AtomicU32, Ordering::SeqCst},
    time::Duration,
};

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

#[tokio::test]
async fn a_request_may_ask_for_retries_by_grpc_code() {
    for (codes, told, attempts) in [
        ("unavailable", 14, 2),
        ("cancelled,internal,resource-exhausted", 13, 2),
        ("cancelled,internal", 14, 1),
        ("none-such", 14, 1),
    ] {
        let calls = AtomicU32::new(0);
        let server = Server::start(move |_| {
            let fails = calls.fetch_add(1, SeqCst) == 0;
            async move {
                let mut told_code = reply("")?;
                let code = if fails { told } else { 0 };
                let headers = told_code.headers_mut();
                headers.insert("content-type", "application/grpc".parse().unwrap());
                headers.insert("grpc-status", code.into());
                Ok(told_code)
            }
        })
        .await;
        let mesh = Mesh::with(&server).await;
        let route = Route::new("main").rule(RouteRule::new().allow_request_headers());
        let policy = Policy::balance("web", 80).grpc().route(route);
        mesh.policy("web").set(policy);
        let mut call = request(Method::POST, "http://web/svc/method", empty());
        let headers = call.headers_mut();
        headers.insert("content-type", "application/grpc".parse().unwrap());
        headers.insert("l5d-retry-grpc", codes.parse().unwrap());
        let answered = soon(mesh.http2().await.send(call)).await.unwrap();
        let expected = if attempts == 2 { 0 } else { told };
        let expected = expected.to_string();
        assert_eq!(answered.header("grpc-status"), Some(&*expected), "{codes}");
        assert_eq!(server.requests(), attempts, "{codes}");
        let last = server.last();
        assert!(
            !last.headers.contains_key("l5d-retry-grpc"),
            "it is removed"
        );
    }
}
