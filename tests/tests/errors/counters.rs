//! `outbound_http_errors_total`: the values of `error`, and requests that are counted at their endpoint instead.

use linkerd_control::Policy;
use linkerd_tests::{Mesh, Server, get, refused, soon};
use std::time::Duration;

const ERRORS: &str = "outbound_http_errors_total";

/// A mesh whose service `web` answers after a while, and whose `empty` has no endpoint.
async fn mesh() -> (Mesh, Server) {
    let web = Server::says("hello").await;
    let name = "LINKERD2_PROXY_OUTBOUND_HTTP_FAILFAST_TIMEOUT";
    let mesh = Mesh::builder().env(name, "200ms").start().await;
    mesh.service("web", [web.addr()]);
    mesh.service("empty", []);
    (mesh, web)
}

#[tokio::test]
async fn each_error_of_the_proxy_itself_is_counted_by_its_kind() {
    let (mesh, web) = mesh().await;
    assert_eq!(mesh.get("http://empty/").await.status, 504);
    assert_eq!(mesh.get("http://empty/").await.status, 503);
    assert_eq!(mesh.get("http://empty/").await.status, 503);
    let mut request = get("http://web/");
    let header = "somebody.else".parse().unwrap();
    request.headers_mut().insert("l5d-require-id", header);
    let reply = soon(mesh.http1().await.send(request)).await.unwrap();
    assert_eq!(reply.status, 502);
    assert_eq!(mesh.get("http://nowhere/").await.status, 502);
    web.set_latency(Duration::from_secs(600));
    let limited = Policy::balance("web", 80).request_timeout(Duration::from_millis(50));
    mesh.policy("limited").set(limited);
    assert_eq!(mesh.get("http://limited/").await.status, 504);

    let metrics = mesh.proxy.metrics().await;
    // `response timeout` is in profiles/timeouts.rs.
    for (error, count) in [
        ("failfast", 1.0),
        ("loadshed", 2.0),
        ("identity required", 1.0),
        ("unexpected", 2.0),
    ] {
        assert_eq!(
            metrics.value(ERRORS, &[("error", error)]),
            Some(count),
            "{error}"
        );
    }
    assert_eq!(metrics.sum(ERRORS, &[]), 6.0);
}

#[tokio::test]
async fn a_failure_of_an_endpoint_is_counted_at_the_endpoint() {
    let (mesh, _web) = mesh().await;
    let (gone, _guard) = refused();
    mesh.policy("gone").set(Policy::forward(gone));
    assert_eq!(mesh.get("http://gone/").await.status, 502);
    let metrics = mesh.proxy.metrics().await;
    assert_eq!(metrics.sum(ERRORS, &[]), 0.0);
    let labels = [("status_code", "502"), ("classification", "failure")];
    assert_eq!(metrics.sum("response_total", &labels), 1.0);
}
