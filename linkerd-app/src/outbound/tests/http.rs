//! Requests, from the application to endpoints and back.

use super::{backend, forward, in_process, only, policy};
use crate::testing::{TestEndpoint, TestResponse, TestWire, text};
use ::http::{HeaderName, HeaderValue, StatusCode, Version};
use futures::{FutureExt, StreamExt};
use linkerd_profiles::Protocol;
use linkerd_proxy_core::{
    Reason,
    endpoint::{Endpoint, ProtocolHint},
};
use std::{io, sync::Arc, time::Duration};
use tokio::time::Instant;

const WEB: &str = "10.1.0.1:80";
const A: &str = "10.0.0.1:8080";
const B: &str = "10.0.0.2:8080";

#[tokio::test(start_paused = true)]
async fn requests_are_balanced_and_answered() {
    in_process(async |proxy| {
        proxy.source.set_policy(WEB, policy(backend("web:80")));
        proxy.source.set_endpoints("web:80", &[A, B]);
        let a = TestEndpoint::answering(&proxy.network, A, "hello");
        let b = TestEndpoint::answering(&proxy.network, B, "hello");
        let mut client = proxy.http1(WEB).await;
        for _ in 0..20 {
            let response = client.get("/").await;
            assert_eq!(response.head.status, StatusCode::OK);
            assert_eq!(response.body.as_deref(), Some("hello"));
        }
        assert!(a.requests() > 0 && b.requests() > 0);
        assert_eq!(a.requests() + b.requests(), 20);
        proxy.settle().await;
        let of_route = ["route_name=\"test\"", "http_status=\"200\"", "error=\"\""];
        let statuses = "outbound_http_route_request_statuses_total";
        assert_eq!(proxy.metric(statuses, &of_route), 20.0);
        let sent = proxy.metric("request_total", &["direction=\"outbound\""]);
        assert_eq!(sent, 20.0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_of_http2_gets_requests_of_http2() {
    in_process(async |proxy| {
        proxy.source.set_policy(WEB, policy(backend("web:80")));
        proxy.source.set_endpoints("web:80", &[A]);
        let endpoint = TestEndpoint::echoing_http2(&proxy.network, A);
        let mut client = proxy.http2(WEB).await;
        let response = client.post("/", "echo").await;
        assert_eq!(response.body.as_deref(), Some("echo"));
        assert_eq!(endpoint.requests(), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_update_moves_new_requests_and_one_in_flight_finishes_where_it_began() {
    in_process(async |proxy| {
        proxy.source.set_policy(WEB, policy(backend("old:80")));
        proxy.source.set_endpoints("old:80", &[A]);
        proxy.source.set_endpoints("new:80", &[B]);
        let (_old, mut bodies) = TestEndpoint::streaming(&proxy.network, A);
        let new = TestEndpoint::answering(&proxy.network, B, "new");
        let mut first = proxy.http1(WEB).await;
        let response = first.send("/", "").await;
        let body = bodies.next().await.unwrap();
        let response = response.await.unwrap();

        proxy.source.set_policy(WEB, policy(backend("new:80")));
        proxy.settle().await;
        let mut second = proxy.http1(WEB).await;
        assert_eq!(second.get("/").await.body.as_deref(), Some("new"));

        body.unbounded_send(Ok("the old one's")).unwrap();
        drop(body);
        let response = TestResponse::read(response).await;
        assert_eq!(response.body.as_deref(), Some("the old one's"));
        assert_eq!(first.get("/").await.body.as_deref(), Some("new"));
        assert_eq!(new.requests(), 2);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_an_endpoint_refuses_goes_to_another() {
    in_process(async |proxy| {
        proxy.source.set_policy(WEB, policy(backend("web:80")));
        proxy.source.set_endpoints("web:80", &[A, B]);
        let b = TestEndpoint::answering(&proxy.network, B, "b");
        let start = Instant::now();
        for _ in 0..5 {
            let mut client = proxy.http1(WEB).await;
            assert_eq!(client.get("/").await.body.as_deref(), Some("b"));
        }
        assert_eq!(b.requests(), 5);
        assert!(start.elapsed() < Duration::from_secs(1));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_refusal_of_the_only_endpoint_is_told_at_once() {
    in_process(async |proxy| {
        proxy.source.set_policy(WEB, policy(forward(A)));
        let mut client = proxy.http1(WEB).await;
        let start = Instant::now();
        let response = client.get("/").await;
        assert_eq!(response.head.status, StatusCode::BAD_GATEWAY);
        assert_eq!(start.elapsed(), Duration::ZERO);
        let failures = "proxy_failures_total";
        assert_eq!(proxy.metric(failures, &["connect_refused"]), 1.0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_breaks_off_breaks_off_at_the_client() {
    in_process(async |proxy| {
        proxy.source.set_policy(WEB, policy(forward(A)));
        let (_endpoint, mut bodies) = TestEndpoint::streaming(&proxy.network, A);
        let mut client = proxy.http1(WEB).await;
        let response = client.send("/", "").await;
        let body = bodies.next().await.unwrap();
        body.unbounded_send(Ok("the first half")).unwrap();
        let response = response.await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        body.unbounded_send(Err(io::ErrorKind::Other.into()))
            .unwrap();
        assert_eq!(TestResponse::read(response).await.body, None);
        proxy.settle().await;
        let broken = ["http_status=\"200\"", "error=\"IO\""];
        let statuses = "outbound_http_route_request_statuses_total";
        assert_eq!(proxy.metric(statuses, &broken), 1.0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn requests_fail_fast_after_one_has_waited_in_vain() {
    in_process(async |proxy| {
        proxy.source.set_policy(WEB, policy(backend("web:80")));
        let mut client = proxy.http1(WEB).await;
        let start = Instant::now();
        let response = client.get("/").await;
        assert_eq!(response.head.status, StatusCode::GATEWAY_TIMEOUT);
        assert_eq!(
            start.elapsed(),
            proxy.ctx.config.outbound.http_queue.failfast
        );
        let mut client = proxy.http1(WEB).await;
        let start = Instant::now();
        let response = client.get("/").await;
        assert_eq!(response.head.status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(start.elapsed(), Duration::ZERO);

        let _endpoint = TestEndpoint::answering(&proxy.network, A, "there");
        proxy.source.set_endpoints("web:80", &[A]);
        proxy.settle().await;
        let mut client = proxy.http1(WEB).await;
        assert_eq!(client.get("/").await.body.as_deref(), Some("there"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_request_for_endpoints_that_are_known_not_to_exist_does_not_wait() {
    in_process(async |proxy| {
        proxy.source.set_policy(WEB, policy(backend("web:80")));
        proxy.source.set_endpoints("web:80", &[]);
        for status in [StatusCode::GATEWAY_TIMEOUT, StatusCode::SERVICE_UNAVAILABLE] {
            let mut client = proxy.http1(WEB).await;
            let start = Instant::now();
            assert_eq!(client.get("/").await.head.status, status);
            assert_eq!(start.elapsed(), Duration::ZERO);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_policy_is_not_waited_for_for_ever() {
    in_process(async |proxy| {
        let mut client = proxy.wire(WEB);
        client.send("GET / HTTP/1.1\r\nhost: web\r\n\r\n").await;
        let start = Instant::now();
        assert_eq!(client.rest().await, "");
        assert_eq!(start.elapsed(), Duration::from_secs(30));
        let failures = "proxy_failures_total";
        assert_eq!(proxy.metric(failures, &["discovery_timeout"]), 1.0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_is_sent_when_an_endpoint_comes() {
    in_process(async |proxy| {
        proxy.source.set_policy(WEB, policy(backend("web:80")));
        let mut client = proxy.http1(WEB).await;
        let response = client.send("/", "").await;
        proxy.settle().await;
        let _endpoint = TestEndpoint::answering(&proxy.network, A, "there");
        proxy.source.set_endpoints("web:80", &[A]);
        let response = TestResponse::read(response.await.unwrap()).await;
        assert_eq!(response.body.as_deref(), Some("there"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_policy_without_routes_answers_not_found() {
    in_process(async |proxy| {
        let mut empty = policy(forward(A));
        empty.protocol = Protocol::Http1(Arc::default());
        empty.parent = Arc::new(linkerd_profiles::Meta::new_default("empty"));
        proxy.source.set_policy(WEB, empty);
        let mut client = proxy.http1(WEB).await;
        assert_eq!(client.get("/").await.head.status, StatusCode::NOT_FOUND);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn drain_waits_for_the_request_in_flight_and_closes_its_connection() {
    in_process(async |proxy| {
        proxy.source.set_policy(WEB, policy(forward(A)));
        let (_endpoint, mut bodies) = TestEndpoint::streaming(&proxy.network, A);
        let mut busy = proxy.http1(WEB).await;
        let response = busy.send("/", "").await;
        let body = bodies.next().await.unwrap();
        let idle = proxy.http1(WEB).await;
        proxy.settle().await;
        let mut drained = tokio_test::task::spawn(proxy.drain());
        assert!(drained.poll().is_pending());
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(idle.is_closed(), "it was waiting for a request");
        assert!(drained.poll().is_pending(), "a request is in flight");
        body.unbounded_send(Ok("whole")).unwrap();
        drop(body);
        let response = TestResponse::read(response.await.unwrap()).await;
        assert_eq!(response.body.as_deref(), Some("whole"));
        drained.await;
        assert!(busy.is_closed());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn http1_is_carried_over_http2_to_a_peer_proxy_and_answered_as_http1() {
    in_process(async |proxy| {
        let peer = Endpoint {
            protocol_hint: ProtocolHint::H2,
            ..Endpoint::new(A.parse().unwrap())
        };
        proxy.source.set_policy(WEB, policy(only(peer)));
        let _endpoint = TestEndpoint::new(&proxy.network, A, true, |request| {
            let original = &request.headers()[L5D_ORIG_PROTO];
            let seen = format!("{:?} as {original:?}", request.version());
            let mut response = text(seen);
            let headers = response.headers_mut();
            headers.insert(L5D_ORIG_PROTO, HeaderValue::from_static("HTTP/1.1"));
            async { response }.boxed_local()
        });
        let response = proxy.http1(WEB).await.get("/").await;
        assert_eq!(response.head.version, Version::HTTP_11);
        assert!(!response.head.headers.contains_key(L5D_ORIG_PROTO));
        let seen = "HTTP/2.0 as \"HTTP/1.1; absolute-form\"";
        assert_eq!(response.body.as_deref(), Some(seen));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_breaks_off_is_the_failure_of_its_client() {
    in_process(async |proxy| {
        proxy.source.set_policy(WEB, policy(forward(A)));
        let mut accepting = proxy.network.listen(A);
        let mut client = proxy.wire(WEB);
        let head = "POST / HTTP/1.1\r\nhost: web\r\ntransfer-encoding: chunked\r\n\r\n";
        client.send(&format!("{head}5\r\nhello\r\n")).await;
        let mut endpoint = TestWire::from(accepting.recv().await.unwrap());
        endpoint.head().await;
        endpoint.expect("5\r\nhello\r\n").await;
        client.send("no length\r\n").await;
        assert!(client.head().await.starts_with("HTTP/1.1 400"));
        assert_eq!(
            endpoint.rest().await,
            "",
            "the end of the body is not made up"
        );
        assert_eq!(proxy.metric("request_total", &[]), 1.0);
        assert_eq!(proxy.metric("response_total", &[]), 0.0);
        let failures = "proxy_failures_total";
        assert_eq!(proxy.metric(failures, &["broken_body"]), 1.0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_is_cut_off_closes_its_connections_as_removed() {
    in_process(async |proxy| {
        proxy.source.set_policy(WEB, policy(forward(A)));
        let (_endpoint, mut bodies) = TestEndpoint::streaming(&proxy.network, A);
        let mut client = proxy.http1(WEB).await;
        let response = client.send("/", "").await;
        let body = bodies.next().await.unwrap();
        body.unbounded_send(Ok("the first half")).unwrap();
        let response = response.await.unwrap();
        proxy.cut_off();
        assert_eq!(TestResponse::read(response).await.body, None);
        let label = format!("error=\"{}\"", Reason::ListenerRemoved.error_label());
        assert_eq!(proxy.metric("outbound_tcp_errors_total", &[&label]), 1.0);
        proxy.drain().await;
    })
    .await;
}

const L5D_ORIG_PROTO: HeaderName = HeaderName::from_static("l5d-orig-proto");
