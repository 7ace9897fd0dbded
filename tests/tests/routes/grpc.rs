//! Routes and filters of gRPC policies.

use crate::{Routed, named, outcome, policy};
use http::Method;
use linkerd_control::{RouteFilter, RouteMatch, RouteRule};
use linkerd_tests::{Message, Reply, empty, request, soon};
use tonic::Code;

async fn call(routed: &Routed, path: &str, headers: &[(&'static str, &str)]) -> Reply {
    let mut sent = request(Method::POST, &format!("http://web{path}"), empty());
    let content_type = "application/grpc".parse().unwrap();
    sent.headers_mut().insert("content-type", content_type);
    for (name, value) in headers {
        sent.headers_mut().append(*name, value.parse().unwrap());
    }
    let client = routed.mesh.http2().await;
    soon(client.send(sent)).await.unwrap()
}

#[tokio::test]
async fn the_longer_service_wins_then_the_method_and_the_headers() {
    let rules = [
        named("any", RouteMatch::rpc("", "")),
        named("service", RouteMatch::rpc("pkg.Svc", "")),
        named("method", RouteMatch::rpc("", "GetEverything")),
        named("both", RouteMatch::rpc("pkg.Svc", "Get")),
        named("both again", RouteMatch::rpc("pkg.Svc", "Get")),
        named("header", RouteMatch::rpc("pkg.Svc", "").header("x-h", "1")),
        named(
            "regex",
            RouteMatch::rpc("pkg.Other", "").header_regex("x-h", "[a-z]+"),
        ),
    ];
    let routed = Routed::start(policy(rules).grpc()).await;
    let header: &[_] = &[("x-h", "1")];
    for (path, headers, expected) in [
        ("/a.B/C", &[][..], "any"),
        ("/pkg.Svc/Put", &[], "service"),
        ("/pkg.Svc/Put", header, "header"),
        ("/pkg.Svc/Get", &[], "both"),
        ("/pkg.Svc/Get", header, "both"),
        ("/pkg.Svc/GetEverything", &[], "service"),
        ("/a.B/GetEverything", header, "method"),
        ("/pkg.svc/Get", &[], "any"),
        ("/pkg.Other/Get", &[("x-h", "abc")], "regex"),
        ("/pkg.Other/Get", header, "any"),
    ] {
        let reply = call(&routed, path, headers).await;
        assert_eq!(outcome(&reply), expected, "{path} {headers:?}");
    }
}

#[tokio::test]
async fn a_call_without_a_route_is_not_found_and_its_connection_goes_on() {
    let rules = [named("echo", RouteMatch::rpc("pkg.Svc", "Get"))];
    let routed = Routed::start(policy(rules).grpc()).await;
    let http2 = routed.mesh.http2().await;
    let grpc = linkerd_tests::Grpc::new(http2.clone(), "web");
    for _ in 0..3 {
        let status = soon(grpc.unary(Message::default())).await.unwrap_err();
        assert_eq!(status.code(), Code::NotFound, "{status:?}");
        assert!(
            status.message().contains("no route (reason no_route, "),
            "{status:?}"
        );
        assert_eq!(status.metadata().get("l5d-proxy-connection"), None);
    }
    // A request that is no gRPC call matches no rule, either.
    let reply = soon(http2.get("http://web/pkg.Svc/Get")).await.unwrap();
    assert_eq!(reply.status, 404);
    assert!(http2.is_open());
    assert_eq!(routed.server.requests(), 0);
}

#[tokio::test]
async fn an_injected_failure_has_its_code_and_its_text_alone() {
    let fails = |service: &str, code| {
        RouteRule::new()
            .when(RouteMatch::rpc(service, ""))
            .filter(RouteFilter::fail_grpc(code, "on purpose"))
    };
    let on_backend = RouteRule::new()
        .when(RouteMatch::rpc("on.Backend", ""))
        .backend_filter(RouteFilter::fail_grpc(7, "of the backend"));
    let rules = [fails("a.A", 8), fails("b.B", 14), on_backend];
    let routed = Routed::start(policy(rules).grpc()).await;
    for (path, code, message) in [
        ("/a.A/X", "8", "on purpose"),
        ("/b.B/X", "14", "on purpose"),
        ("/on.Backend/X", "7", "of the backend"),
    ] {
        let reply = call(&routed, path, &[]).await;
        assert_eq!(reply.status, 200);
        assert_eq!(reply.header("content-type"), Some("application/grpc"));
        assert_eq!(reply.header("grpc-status"), Some(code));
        assert_eq!(reply.header("l5d-proxy-error"), Some(message));
        assert_eq!(reply.header("l5d-proxy-connection"), None);
        assert!(reply.body.is_empty());
    }
    assert_eq!(routed.server.requests(), 0);
}
