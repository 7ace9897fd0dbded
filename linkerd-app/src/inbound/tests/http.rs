//! Requests, from a peer to the application and back.

use super::{in_process, in_process_with};
use crate::testing::{TestEndpoint, TestResponse, text};
use ::http::{HeaderName, HeaderValue, Request, StatusCode, Version};
use futures::{FutureExt, StreamExt};
use linkerd_proxy_core::Reason;
use std::time::Duration;
use tokio::time::Instant;

const APP: &str = "10.0.0.9:8080";

#[tokio::test(start_paused = true)]
async fn http1_reaches_the_application() {
    in_process(async |proxy| {
        let application = TestEndpoint::answering(&proxy.network, APP, "hello");
        let mut peer = proxy.http1(APP).await;
        for _ in 0..3 {
            let response = peer.get("/").await;
            assert_eq!(response.head.status, StatusCode::OK);
            assert_eq!(response.body.as_deref(), Some("hello"));
        }
        assert_eq!(application.requests(), 3);
        proxy.settle().await;
        let inbound = ["direction=\"inbound\"", "srv_port=\"8080\""];
        assert_eq!(proxy.metric("request_total", &inbound), 3.0);
        let success = ["status_code=\"200\"", "classification=\"success\""];
        assert_eq!(proxy.metric("response_total", &success), 3.0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn http2_reaches_the_application() {
    in_process(async |proxy| {
        let application = TestEndpoint::echoing_http2(&proxy.network, APP);
        let mut peer = proxy.http2(APP).await;
        let responses = [peer.send("/", "one").await, peer.send("/", "two").await];
        for (response, body) in responses.into_iter().zip(["one", "two"]) {
            let response = TestResponse::read(response.await.unwrap()).await;
            assert_eq!(response.body.as_deref(), Some(body));
        }
        assert_eq!(application.requests(), 2);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn http1_that_a_peer_carried_over_http2_is_restored_without_claims() {
    in_process(async |proxy| {
        let _application = TestEndpoint::new(&proxy.network, APP, false, |request| {
            let (version, host) = (request.version(), &request.headers()["host"]);
            let claims = request.headers().contains_key("l5d-client-id");
            let response = text(format!("{version:?} {} {host:?} {claims}", request.uri()));
            async { response }.boxed_local()
        });
        let mut peer = proxy.http2(APP).await;
        let request = Request::get("http://web.example/path")
            .header(L5D_ORIG_PROTO, "HTTP/1.1")
            .header("l5d-client-id", "admin")
            .body(Default::default());
        let response = peer.send_request(request.unwrap()).await.await.unwrap();
        assert_eq!(response.version(), Version::HTTP_2);
        let proto = response.headers().get(&L5D_ORIG_PROTO);
        assert_eq!(proto, Some(&HeaderValue::from_static("HTTP/1.1")));
        let body = TestResponse::read(response).await.body;
        let seen = "HTTP/1.1 /path \"web.example\" false";
        assert_eq!(body.as_deref(), Some(seen));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_is_not_let_in_is_forbidden_and_the_application_not_dialled() {
    let authenticated = [("LINKERD2_PROXY_INBOUND_DEFAULT_POLICY", "all-authenticated")];
    in_process_with(&authenticated, async |proxy| {
        let application = TestEndpoint::answering(&proxy.network, APP, "secret");
        let response = proxy.http1(APP).await.get("/").await;
        assert_eq!(response.head.status, StatusCode::FORBIDDEN);
        assert_ne!(response.body.as_deref(), Some("secret"));
        let response = proxy.http2(APP).await.get("/").await;
        assert_eq!(response.head.status, StatusCode::FORBIDDEN);

        let grpc = Request::post("http://test.example/Service/Method")
            .header("content-type", "application/grpc")
            .body(Default::default());
        let mut peer = proxy.http2(APP).await;
        let response = peer.send_request(grpc.unwrap()).await.await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let code = Reason::Unauthorized.grpc_code().to_string();
        assert_eq!(response.headers()["grpc-status"], code.as_str());

        assert_eq!(application.requests(), 0);
        assert_eq!(proxy.metric("tcp_open_total", &["peer=\"dst\""]), 0.0);
        let errors = "inbound_http_errors_total";
        assert_eq!(proxy.metric(errors, &[]), 0.0, "they count as denied");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_application_that_is_gone_is_told_at_once_in_http1() {
    in_process(async |proxy| {
        drop(proxy.network.listen(APP));
        let start = Instant::now();
        let response = proxy.http1(APP).await.get("/").await;
        assert_eq!(response.head.status, StatusCode::BAD_GATEWAY);
        assert_eq!(start.elapsed(), Duration::ZERO);
        let refused = Reason::ConnectRefused.error_label();
        let label = format!("error=\"{refused}\"");
        assert_eq!(proxy.metric("inbound_http_errors_total", &[&label]), 1.0);

        let _application = TestEndpoint::answering(&proxy.network, APP, "back");
        tokio::time::sleep(Duration::from_secs(10)).await;
        let response = proxy.http1(APP).await.get("/").await;
        assert_eq!(response.body.as_deref(), Some("back"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_application_that_is_gone_is_waited_for_in_http2() {
    in_process(async |proxy| {
        let start = Instant::now();
        let response = proxy.http2(APP).await.get("/").await;
        let failfast = proxy.ctx.config.inbound.http_queue.failfast;
        assert_eq!(start.elapsed(), failfast);
        assert_eq!(response.head.status, StatusCode::GATEWAY_TIMEOUT);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn drain_waits_for_the_request_in_flight_and_closes_its_connection() {
    in_process(async |proxy| {
        let (_application, mut bodies) = TestEndpoint::streaming(&proxy.network, APP);
        let mut busy = proxy.http1(APP).await;
        let response = busy.send("/", "").await;
        let body = bodies.next().await.unwrap();
        let idle = proxy.http1(APP).await;
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
async fn a_listener_that_is_cut_off_closes_its_connections_as_removed() {
    in_process(async |proxy| {
        let (_application, mut bodies) = TestEndpoint::streaming(&proxy.network, APP);
        let mut peer = proxy.http1(APP).await;
        let response = peer.send("/", "").await;
        let _body = bodies.next().await.unwrap();
        let response = response.await.unwrap();
        proxy.cut_off();
        assert_eq!(TestResponse::read(response).await.body, None);
        let label = format!("error=\"{}\"", Reason::ListenerRemoved.error_label());
        assert_eq!(proxy.metric("inbound_tcp_errors_total", &[&label]), 1.0);
        proxy.drain().await;
    })
    .await;
}

const L5D_ORIG_PROTO: HeaderName = HeaderName::from_static("l5d-orig-proto");
