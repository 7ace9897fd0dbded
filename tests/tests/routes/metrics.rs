//! Metrics of routes and of their backends.

use crate::{policy, route};
use linkerd_api_proto::outbound::OutboundPolicy;
use linkerd_control::{Policy, Profile, RouteFilter, RouteMatch, RouteRule};
use linkerd_tests::{Mesh, Message, Server, Wire, grpc_handler, soon};

const PARENT: [(&str, &str); 6] = [
    ("parent_group", "core"),
    ("parent_kind", "Service"),
    ("parent_namespace", "default"),
    ("parent_name", "web"),
    ("parent_port", "80"),
    ("parent_section_name", ""),
];

/// Labels of a route of `web`, and more labels.
fn labels<'a>(
    kind: &'a str,
    name: &'a str,
    more: &[(&'a str, &'a str)],
) -> Vec<(&'a str, &'a str)> {
    let route = [
        ("route_group", "gateway.networking.k8s.io"),
        ("route_kind", kind),
        ("route_namespace", "default"),
        ("route_name", name),
    ];
    [&PARENT[..], &route, more].concat()
}

/// The labels of a backend.
fn backend(name: &str) -> [(&str, &str); 6] {
    [
        ("backend_group", "core"),
        ("backend_kind", "Service"),
        ("backend_namespace", "default"),
        ("backend_name", name),
        ("backend_port", "80"),
        ("backend_section_name", ""),
    ]
}

#[tokio::test]
async fn each_route_and_each_of_its_backends_is_counted() {
    let (web, other) = (Server::says("web").await, Server::says("other").await);
    let mesh = Mesh::with(&web).await;
    mesh.service("other", [other.addr()]);
    let rule = |path: &str| RouteRule::new().when(RouteMatch::prefix(path));
    let fails = |path: &str| rule(path).filter(RouteFilter::fail(418, "on purpose"));
    let policy = Policy::balance("web", 80)
        .route(route("first", [rule("/first"), fails("/first/fails")]))
        .route(route("second", [rule("/second").to("other", 80)]));
    mesh.policy("web").set(policy);
    for (path, count) in [("/first", 3), ("/first/fails", 2), ("/second", 4)] {
        for _ in 0..count {
            mesh.get(&format!("http://web{path}")).await;
        }
    }
    mesh.get("http://web/no-route").await;

    let metrics = mesh.proxy.metrics().await;
    let statuses = "outbound_http_route_request_statuses_total";
    // Empty unless host name labels are enabled.
    let hostname = ("hostname", "");
    for (name, status, count) in [
        ("first", "200", 3.0),
        ("first", "418", 2.0),
        ("second", "200", 4.0),
    ] {
        let more = [("http_status", status), ("error", ""), hostname];
        let labels = labels("HTTPRoute", name, &more);
        assert_eq!(metrics.value(statuses, &labels), Some(count), "{name}");
    }
    let durations = "outbound_http_route_request_duration_seconds_count";
    let first = labels("HTTPRoute", "first", &[hostname]);
    assert_eq!(metrics.value(durations, &first), Some(5.0));

    let requests = "outbound_http_route_backend_requests_total";
    let responses = "outbound_http_route_backend_response_statuses_total";
    let times = "outbound_http_route_backend_response_duration_seconds_count";
    for (name, backend_name, count) in [("first", "web", 3.0), ("second", "other", 4.0)] {
        let labels = labels("HTTPRoute", name, &backend(backend_name));
        assert_eq!(metrics.sum(requests, &labels), count, "{name}");
        assert_eq!(metrics.sum(times, &labels), count, "{name}");
        let labels = [&labels[..], &[("http_status", "200"), ("error", "")]].concat();
        assert_eq!(metrics.value(responses, &labels), Some(count), "{name}");
    }
    // A request without a matching rule counts for no route.
    assert_eq!(metrics.sum(statuses, &PARENT), 9.0);
}

#[tokio::test]
async fn a_failure_of_the_filter_of_a_backend_is_the_backends() {
    let server = Server::says("web").await;
    let mesh = Mesh::with(&server).await;
    let rule = RouteRule::new().backend_filter(RouteFilter::fail(418, "on purpose"));
    mesh.policy("web").set(policy([rule]));
    assert_eq!(mesh.get("http://web/").await.status, 418);
    let metrics = mesh.proxy.metrics().await;
    let labels = labels("HTTPRoute", "main", &backend("web"));
    let requests = "outbound_http_route_backend_requests_total";
    assert_eq!(metrics.value(requests, &labels), Some(1.0));
    let statuses = "outbound_http_route_backend_response_statuses_total";
    let labels = [&labels[..], &[("http_status", "418"), ("error", "")]].concat();
    assert_eq!(metrics.value(statuses, &labels), Some(1.0));
}

#[tokio::test]
async fn grpc_routes_are_counted_by_the_names_of_their_codes() {
    let server = Server::start(grpc_handler).await;
    let mesh = Mesh::with(&server).await;
    let unary = RouteRule::new().when(RouteMatch::rpc("test.Echo", "Unary"));
    let stream = RouteRule::new()
        .when(RouteMatch::rpc("", "Stream"))
        .filter(RouteFilter::fail_grpc(7, "on purpose"));
    let policy = Policy::balance("web", 80)
        .route(route("unary", [unary]))
        .route(route("stream", [stream]));
    mesh.policy("web").set(policy.grpc());
    let grpc = mesh.grpc("web").await;
    for text in ["hello", "fail:5"] {
        let _ = soon(grpc.unary(Message::new(text, 0))).await;
    }
    assert!(soon(grpc.stream(Message::default())).await.is_err());

    let metrics = mesh.proxy.metrics().await;
    let routes = "outbound_grpc_route_request_statuses_total";
    for (name, status) in [
        ("unary", "OK"),
        ("unary", "NOT_FOUND"),
        ("stream", "PERMISSION_DENIED"),
    ] {
        let more = [("grpc_status", status), ("error", ""), ("hostname", "")];
        let labels = labels("GRPCRoute", name, &more);
        assert_eq!(metrics.value(routes, &labels), Some(1.0), "{name} {status}");
    }
    let requests = "outbound_grpc_route_backend_requests_total";
    let labels = labels("GRPCRoute", "unary", &backend("web"));
    assert_eq!(metrics.value(requests, &labels), Some(2.0));
}

#[tokio::test]
async fn host_names_are_labels_if_asked_for_up_to_a_bound() {
    let web = Server::says("web").await;
    let name = "LINKERD2_PROXY_OUTBOUND_METRICS_HOSTNAME_LABELS";
    let mesh = Mesh::builder().env(name, true).start().await;
    mesh.service("web", [web.addr()]);
    let rule = RouteRule::new().when(RouteMatch::prefix("/"));
    let policy = Policy::balance("web", 80).route(route("main", [rule]));
    mesh.policy("web").unset();
    mesh.controller.any_policy().set(policy);
    // Through a tunnel to one target the field `host` names hosts; in other requests each authority is another target.
    let mut wire = Wire::tunnel(mesh.proxy.outbound, "web:80").await;
    for host in [
        "Shop.test",
        "shop.test:80",
        "shop.test.",
        "10.0.0.1",
        "10.0.0.2:80",
    ] {
        wire.send(format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n"))
            .await;
        let (head, _) = soon(wire.response()).await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    }
    for n in 0..200 {
        wire.send(format!("GET / HTTP/1.1\r\nhost: h{n}.test\r\n\r\n"))
            .await;
        soon(wire.response()).await;
    }
    let metrics = mesh.proxy.metrics().await;
    let count = |hostname: &str| {
        let statuses = "outbound_http_route_request_statuses_total";
        let labels = [("hostname", hostname)];
        metrics.sum(statuses, &labels)
    };
    assert_eq!((count("shop.test"), count("")), (3.0, 2.0));
    assert_eq!(
        (count("h0.test"), count("h97.test"), count("h98.test")),
        (1.0, 1.0, 0.0)
    );
    assert_eq!(count("other"), 102.0);
    let state = mesh.proxy.admin.state().await;
    let target = &state["workers"][0]["outbound"]["targets"][0];
    let rule = &target["http"][0]["routes"]["first"][0];
    assert_eq!(rule["in_use"], true, "{target}");
}

#[tokio::test]
async fn synthesized_and_invalid_policies_have_parents_of_their_own() {
    let server = Server::says("hello").await;
    let addr = server.addr().to_string();
    let mesh = Mesh::start().await;
    mesh.policy("broken").set(OutboundPolicy::default());
    let networks = "LINKERD2_PROXY_DESTINATION_PROFILE_NETWORKS";
    let profiled = Mesh::builder().env(networks, "127.0.0.0/8").start().await;
    profiled.controller.profile(&addr).set(Profile::new(""));
    for (mesh, target, name, status) in [
        (&mesh, &*addr, "fallback", 200),
        (&profiled, &*addr, "endpoint", 200),
        (&mesh, "broken:80", "invalid", 500),
    ] {
        let mut wire = Wire::tunnel(mesh.proxy.outbound, target).await;
        wire.send("GET / HTTP/1.1\r\nhost: web\r\n\r\n").await;
        let (head, _) = soon(wire.response()).await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}");
        let labels: &[_] = &[
            ("parent_group", ""),
            ("parent_kind", "default"),
            ("parent_name", name),
        ];
        let metrics = mesh.proxy.metrics().await;
        let connections = "outbound_tcp_protocol_connections_total";
        assert_eq!(metrics.sum(connections, labels), 1.0, "{name}");
    }
}
