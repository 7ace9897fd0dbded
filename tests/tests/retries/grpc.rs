//! Retries by gRPC code.

use http::{HeaderMap, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use linkerd_control::{Policy, Route, RouteRetry, RouteRule};
use linkerd_tests::{Body, BoxError, Fail, Mesh, Message, Server, grpc_handler, soon};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use tonic::Code;

/// Place of the gRPC code in the response.
#[derive(Clone, Copy, Debug)]
enum Told {
    /// In the headers, which end the response.
    Headers,
    /// In trailers that follow the headers.
    Trailers,
}

fn failure(told: Told, code: u32) -> Result<Response<Body>, Fail> {
    let response = Response::builder().header("content-type", "application/grpc");
    match told {
        Told::Headers => Ok(response
            .header("grpc-status", code)
            .body(linkerd_tests::empty())
            .unwrap()),
        Told::Trailers => {
            let trailers = HeaderMap::from_iter([(
                http::HeaderName::from_static("grpc-status"),
                http::HeaderValue::from(code),
            )]);
            let frames = futures::stream::iter([Ok::<_, BoxError>(Frame::trailers(trailers))]);
            Ok(response
                .body(StreamBody::new(frames).boxed_unsync())
                .unwrap())
        }
    }
}

/// A mesh whose service fails its first `failures` calls with a code.
async fn mesh(told: Told, code: u32, failures: u32, retry: RouteRetry) -> (Mesh, Server) {
    let calls = AtomicU32::new(0);
    let server = Server::start(move |request| {
        let fails = calls.fetch_add(1, SeqCst) < failures;
        async move {
            match fails {
                true => {
                    let _ = request.into_body().collect().await;
                    failure(told, code)
                }
                false => grpc_handler(request).await,
            }
        }
    })
    .await;
    let mesh = Mesh::with(&server).await;
    let route = Route::new("main").rule(RouteRule::new().retry(retry));
    let policy = Policy::balance("web", 80).grpc().route(route);
    mesh.policy("web").set(policy);
    (mesh, server)
}

#[tokio::test]
async fn a_code_is_retried_wherever_it_is_told() {
    for told in [Told::Headers, Told::Trailers] {
        for (code, expected) in [(14, Ok(())), (8, Ok(())), (13, Err(Code::Internal))] {
            let retry = RouteRetry::new(1).code(8).code(14);
            let (mesh, server) = mesh(told, code, 1, retry).await;
            let grpc = mesh.grpc("web").await;
            let sent = Message::new("hello", 1);
            let answered = soon(grpc.unary(sent.clone())).await;
            match expected {
                Ok(()) => assert_eq!(answered.unwrap(), sent, "{told:?} {code}"),
                Err(code) => assert_eq!(answered.unwrap_err().code(), code, "{told:?}"),
            }
            let attempts = if expected.is_ok() { 2 } else { 1 };
            assert_eq!(server.requests(), attempts, "{told:?} {code}");
            let metrics = mesh.proxy.metrics().await;
            let requests = metrics.sum("outbound_grpc_route_retry_requests_total", &[]);
            assert_eq!(requests, (attempts - 1) as f64);
            // The code of each attempt counts for its endpoint, retried or not.
            let label = code.to_string();
            let labels = [("grpc_status", &*label)];
            assert_eq!(
                metrics.sum("response_total", &labels),
                1.0,
                "{told:?} {code}"
            );
        }
    }
}

#[tokio::test]
async fn a_code_that_stays_is_passed_on_as_it_was_told() {
    for told in [Told::Headers, Told::Trailers] {
        let (mesh, server) = mesh(told, 14, 10, RouteRetry::new(2).code(14)).await;
        let grpc = mesh.grpc("web").await;
        let status = soon(grpc.unary(Message::default())).await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable, "{told:?}");
        assert_eq!(server.requests(), 3);
        let metrics = mesh.proxy.metrics().await;
        let exceeded = "outbound_grpc_route_retry_limit_exceeded_total";
        assert_eq!(metrics.sum(exceeded, &[]), 1.0);
        let statuses = "outbound_grpc_route_request_statuses_total";
        let labels = [("grpc_status", "UNAVAILABLE")];
        assert_eq!(metrics.sum(statuses, &labels), 1.0, "{told:?}");
    }
}

#[tokio::test]
async fn a_stream_that_has_begun_is_passed_on_as_it_comes() {
    let (mesh, server) = mesh(Told::Headers, 14, 0, RouteRetry::new(2).code(14)).await;
    let grpc = mesh.grpc("web").await;
    let mut messages = soon(grpc.stream(Message::new("item", 3))).await.unwrap();
    for count in 0..3 {
        let message = soon(messages.message()).await.unwrap().unwrap();
        assert_eq!(message, Message::new("item", count));
    }
    assert_eq!(server.requests(), 1);
}
