//! The label `error` of the status metrics of routes.

use crate::route;
use futures::StreamExt;
use http::Response;
use hyper::body::Frame;
use linkerd_control::{Policy, RouteMatch, RouteRule, RouteTimeouts};
use linkerd_tests::{Body, Fail, Mesh, SOON, Server, chunks, eventually, soon};
use std::time::Duration;

const STATUSES: &str = "outbound_http_route_request_statuses_total";

/// A body that begins, and does not end.
fn endless() -> Body {
    let first = futures::stream::once(async { Ok(Frame::data("begun".into())) });
    chunks(first.chain(futures::stream::pending()))
}

/// A mesh whose service `web` fails as the path of a request says, with limits of 100 ms below `/limited`.
async fn mesh() -> (Mesh, Server) {
    let server = Server::start(|request| async move {
        match request.uri().path() {
            "/cancel" => Err(Fail::Reset(h2::Reason::CANCEL)),
            "/refused" => Err(Fail::Reset(h2::Reason::REFUSED_STREAM)),
            "/calm" => Err(Fail::Reset(h2::Reason::ENHANCE_YOUR_CALM)),
            "/reset" => Err(Fail::Reset(h2::Reason::INTERNAL_ERROR)),
            path if path.ends_with("/silent") => std::future::pending().await,
            _ => Ok(Response::new(endless())),
        }
    })
    .await;
    let mesh = Mesh::with(&server).await;
    let limit = Duration::from_millis(100);
    let limited = |path: &str, timeouts| {
        let rule = RouteRule::new().when(RouteMatch::prefix(path));
        rule.timeouts(timeouts)
    };
    let rules = [
        limited("/limited/request", RouteTimeouts::new().request(limit)),
        limited("/limited/response", RouteTimeouts::new().response(limit)),
        limited("/limited/idle", RouteTimeouts::new().idle(limit)),
        RouteRule::new(),
    ];
    let policy = Policy::balance("web", 80).route(route("main", rules));
    mesh.policy("web").set(policy);
    (mesh, server)
}

/// The count of responses with a status and an error.
async fn count(mesh: &Mesh, status: &str, error: &str) -> f64 {
    let labels = [("http_status", status), ("error", error)];
    mesh.proxy.metrics().await.sum(STATUSES, &labels)
}

/// A dashboard of success rates shows what a route's limits end.
#[tokio::test]
async fn requests_that_a_limit_ends_are_failures_of_their_endpoint() {
    let (mesh, _server) = mesh().await;
    for (path, error) in [
        ("/limited/request", "REQUEST_TIMEOUT"),
        ("/limited/response", "RESPONSE_HEADERS_TIMEOUT"),
    ] {
        for _ in 0..3 {
            assert_eq!(
                mesh.get(&format!("http://web{path}/silent")).await.status,
                504
            );
        }
        assert_eq!(count(&mesh, "", error).await, 3.0, "{path}");
        let labels = [("http_status", ""), ("error", error)];
        let backend = "outbound_http_route_backend_response_statuses_total";
        let metrics = mesh.proxy.metrics().await;
        assert_eq!(metrics.sum(backend, &labels), 3.0, "{path}");
    }
    let failed = [
        ("direction", "outbound"),
        ("classification", "failure"),
        ("grpc_status", ""),
        ("error", "unclassified"),
    ];
    let metrics = mesh.proxy.metrics().await;
    assert_eq!(metrics.sum("response_total", &failed), 6.0);
    assert_eq!(metrics.sum("request_total", &failed[..1]), 6.0);
}

#[tokio::test]
async fn resets_of_an_endpoint_are_counted_by_their_code() {
    let (mesh, _server) = mesh().await;
    for (path, error) in [
        ("/cancel", "CANCEL"),
        ("/refused", "REFUSED"),
        ("/calm", "ENHANCE_YOUR_CALM"),
        ("/reset", "RESET"),
    ] {
        let client = mesh.http2().await;
        let reply = soon(client.get(&format!("http://web{path}"))).await;
        assert!(reply.is_err(), "{reply:?}");
        assert_eq!(count(&mesh, "", error).await, 1.0, "{error}");
    }
}

#[tokio::test]
async fn limits_of_a_route_are_counted_with_the_status_of_a_response_that_had_begun() {
    let (mesh, _server) = mesh().await;
    for (limit, error) in [
        ("request", "REQUEST_TIMEOUT"),
        ("response", "RESPONSE_STREAM_TIMEOUT"),
        ("idle", "IDLE_TIMEOUT"),
    ] {
        let uri = format!("http://web/limited/{limit}");
        let reply = soon(mesh.http2().await.get(&uri)).await;
        assert!(reply.is_err(), "{reply:?}");
        assert_eq!(count(&mesh, "200", error).await, 1.0, "{error}");
    }
}

#[tokio::test]
async fn a_response_that_breaks_off_is_io_and_one_that_the_client_leaves_is_unknown() {
    let (mesh, mut server) = mesh().await;
    let begun = async || {
        let mut wire = mesh.wire().await;
        wire.send("GET http://web/endless HTTP/1.1\r\nhost: web\r\n\r\n")
            .await;
        soon(wire.until(b"begun")).await;
        wire
    };
    let counted = |error| {
        eventually(SOON, error, || async {
            (count(&mesh, "200", error).await == 1.0).then_some(())
        })
    };
    drop(begun().await);
    counted("UNKNOWN").await;
    let _wire = begun().await;
    server.stop().await;
    counted("IO").await;
}

#[tokio::test]
async fn requests_without_an_endpoint_are_counted_by_whether_they_waited() {
    let name = "LINKERD2_PROXY_OUTBOUND_HTTP_FAILFAST_TIMEOUT";
    let mesh = Mesh::builder().env(name, "200ms").start().await;
    mesh.service("web", []);
    for (status, error) in [(504, "FAIL_FAST"), (503, "LOAD_SHED")] {
        assert_eq!(mesh.get("http://web/").await.status, status);
        assert_eq!(count(&mesh, "", error).await, 1.0, "{error}");
    }
}
