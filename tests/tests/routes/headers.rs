//! Changes of headers.

use crate::{Routed, policy};
use bytes::Bytes;
use http::Response;
use linkerd_control::{HeaderChanges, RouteFilter, RouteMatch, RouteRule};
use linkerd_tests::{Mesh, Server, body, get, soon};

fn changes() -> HeaderChanges {
    HeaderChanges::new()
        .add("x-add", "new")
        .add("x-set", "added")
        .set("x-set", "set")
        .set("x-remove", "set")
        .remove("x-remove")
        .remove("x-absent")
}

/// The values of a header.
fn values<'a>(headers: &'a http::HeaderMap, name: &str) -> Vec<&'a str> {
    let values = headers.get_all(name).iter();
    values.map(|value| value.to_str().unwrap()).collect()
}

#[tokio::test]
async fn request_headers_are_added_then_set_then_removed() {
    let route = RouteRule::new()
        .when(RouteMatch::exact("/route"))
        .filter(RouteFilter::request_headers(changes()));
    let backend = RouteRule::new()
        .when(RouteMatch::exact("/backend"))
        .backend_filter(RouteFilter::request_headers(changes()));
    let routed = Routed::with([route, backend]).await;
    for path in ["/route", "/backend"] {
        let mut request = get(&format!("http://web{path}"));
        for (name, value) in [("x-add", "old"), ("x-set", "old"), ("x-remove", "old")] {
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        let reply = soon(routed.mesh.http2().await.send(request)).await.unwrap();
        assert_eq!(reply.status, 200);
        let seen = routed.server.last().headers;
        assert_eq!(values(&seen, "x-add"), ["old", "new"], "{path}");
        assert_eq!(values(&seen, "x-set"), ["set"], "{path}");
        assert!(values(&seen, "x-remove").is_empty(), "{path}");
        // The response headers are unchanged.
        assert!(values(&reply.headers, "x-add").is_empty(), "{path}");
    }
}

#[tokio::test]
async fn response_headers_are_added_then_set_then_removed() {
    let server = Server::start(|_| async move {
        let response = Response::builder()
            .header("x-add", "old")
            .header("x-set", "old")
            .header("x-remove", "old");
        Ok(response.body(body(Bytes::from("text"))).unwrap())
    })
    .await;
    let mesh = Mesh::with(&server).await;
    let route = RouteRule::new()
        .when(RouteMatch::exact("/route"))
        .filter(RouteFilter::response_headers(changes()));
    let backend = RouteRule::new()
        .when(RouteMatch::exact("/backend"))
        .backend_filter(RouteFilter::response_headers(changes()));
    mesh.policy("web").set(policy([route, backend]));
    for path in ["/route", "/backend"] {
        let reply = mesh.get(&format!("http://web{path}")).await;
        assert_eq!(reply.text(), "text");
        assert_eq!(values(&reply.headers, "x-add"), ["old", "new"], "{path}");
        assert_eq!(values(&reply.headers, "x-set"), ["set"], "{path}");
        assert!(values(&reply.headers, "x-remove").is_empty(), "{path}");
        assert!(values(&server.last().headers, "x-add").is_empty(), "{path}");
    }
}

#[tokio::test]
async fn filters_apply_in_their_order_and_those_of_the_backend_last() {
    let set = |value: &str| RouteFilter::request_headers(HeaderChanges::new().set("x-set", value));
    let add = |value: &str| RouteFilter::request_headers(HeaderChanges::new().add("x-add", value));
    let rule = RouteRule::new()
        .filter(set("first"))
        .filter(add("first"))
        .filter(set("second"))
        .filter(add("second"))
        .backend_filter(add("backend"))
        .backend_filter(set("backend"));
    let routed = Routed::with([rule]).await;
    assert_eq!(routed.get("http://web/").await.status, 200);
    let seen = routed.server.last().headers;
    assert_eq!(values(&seen, "x-set"), ["backend"]);
    assert_eq!(values(&seen, "x-add"), ["first", "second", "backend"]);
}

#[tokio::test]
async fn changed_headers_do_not_change_the_choice_of_a_rule() {
    let set = RouteFilter::request_headers(HeaderChanges::new().set("x-kind", "a"));
    let routed = Routed::with([
        RouteRule::new().when(RouteMatch::any()).filter(set),
        RouteRule::new()
            .when(RouteMatch::any().header("x-kind", "a"))
            .filter(RouteFilter::fail(418, "the other rule")),
    ])
    .await;
    assert_eq!(routed.get("http://web/").await.status, 200);
}
