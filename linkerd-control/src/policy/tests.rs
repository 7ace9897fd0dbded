use super::*;
use linkerd_api_proto::outbound::backend;
use linkerd_api_proto::outbound::http_route::distribution;

#[test]
fn a_detect_policy_has_all_that_a_proxy_requires() {
    let policy = Policy::balance("web", 8080).namespace("shop").build();

    let Some(metadata::Kind::Resource(service)) = policy.metadata.and_then(|m| m.kind) else {
        panic!("the parent is not a resource");
    };
    assert_eq!((&*service.group, &*service.kind), ("core", "Service"));
    assert_eq!(
        (&*service.name, &*service.namespace, service.port),
        ("web", "shop", 8080)
    );

    let Some(proxy_protocol::Kind::Detect(detect)) = policy.protocol.and_then(|p| p.kind) else {
        panic!("the protocol is not detected");
    };
    assert_eq!(detect.timeout.map(|t| t.seconds), Some(10));
    assert!(detect.opaque.is_some_and(|o| o.routes.len() == 1));
    assert!(detect.http2.is_some_and(|h| h.routes.len() == 1));
    let route = detect.http1.expect("HTTP/1").routes.remove(0);
    let rule = &route.rules[0];
    assert_eq!(rule.matches.len(), 1);

    let Some(distribution::Kind::FirstAvailable(first)) =
        rule.backends.as_ref().and_then(|b| b.kind.as_ref())
    else {
        panic!("not the first available: {:?}", rule.backends);
    };
    let backend = first.backends[0].backend.as_ref().expect("a backend");
    let queue = backend.queue.as_ref().expect("a queue");
    assert_eq!(queue.capacity, 100);
    assert_eq!(queue.failfast_timeout.map(|t| t.seconds), Some(3));
    assert_eq!(path(backend), "web.shop.svc.cluster.local:8080");
}

#[test]
fn weighted_backends_are_services_of_the_same_namespace() {
    let policy = Policy::weighted("web", 80, [("web-v1", 80, 9), ("web-v2", 81, 1)])
        .namespace("shop")
        .http1()
        .build();
    let Some(proxy_protocol::Kind::Http1(http1)) = policy.protocol.and_then(|p| p.kind) else {
        panic!("not HTTP/1");
    };
    let backends = http1.routes[0].rules[0].backends.as_ref();
    let Some(distribution::Kind::RandomAvailable(random)) = backends.and_then(|b| b.kind.as_ref())
    else {
        panic!("not random: {backends:?}");
    };
    let split: Vec<_> = random
        .backends
        .iter()
        .map(|b| {
            let backend = b.backend.as_ref().and_then(|b| b.backend.as_ref());
            (path(backend.expect("a backend")), b.weight)
        })
        .collect();
    assert_eq!(
        split,
        [
            ("web-v1.shop.svc.cluster.local:80".to_owned(), 9),
            ("web-v2.shop.svc.cluster.local:81".to_owned(), 1)
        ]
    );
}

#[test]
fn each_protocol_is_declared() {
    let kind = |protocol| {
        let policy = Policy::balance("web", 80).protocol(protocol).build();
        policy.protocol.and_then(|p| p.kind).expect("a protocol")
    };
    assert!(matches!(
        kind(Protocol::Http1),
        proxy_protocol::Kind::Http1(_)
    ));
    assert!(matches!(
        kind(Protocol::Http2),
        proxy_protocol::Kind::Http2(_)
    ));
    assert!(matches!(
        kind(Protocol::Grpc),
        proxy_protocol::Kind::Grpc(_)
    ));
    assert!(matches!(
        kind(Protocol::Opaque),
        proxy_protocol::Kind::Opaque(_)
    ));
}

#[test]
fn a_forward_policy_names_no_service() {
    let addr: std::net::SocketAddr = ([10, 0, 0, 1], 80).into();
    let policy = Policy::forward(addr).build();
    assert_eq!(
        policy.metadata.and_then(|m| m.kind),
        Some(metadata::Kind::Default("endpoint".to_owned()))
    );
}

#[test]
fn an_empty_policy_has_an_empty_distribution() {
    let (backends, _) = Policy::empty("web", 80).backends(None);
    assert!(backends.is_empty());
}

#[test]
fn routes_are_those_of_the_protocol() {
    let rule = RouteRule::new()
        .when(RouteMatch::rpc("pkg.Svc", "Get").header("x-a", "1"))
        .when(RouteMatch::prefix("/a").query("q", "1").method("GET"))
        .filter(RouteFilter::fail(503, "no"))
        .filter(RouteFilter::fail_grpc(7, "no").ratio(1, 2))
        .filter(RouteFilter::request_headers(
            HeaderChanges::new().remove("x-a"),
        ))
        .to("other", 81);
    let route = Route::new("route")
        .host("web.test")
        .host("*.shop.test")
        .rule(rule);
    let policy = Policy::balance("web", 80).namespace("shop").route(route);

    let http = policy.http_routes().remove(0);
    assert_eq!(http.hosts.len(), 2);
    let rule = &http.rules[0];
    assert_eq!((rule.matches.len(), rule.filters.len()), (2, 2));
    let Some(distribution::Kind::FirstAvailable(first)) =
        rule.backends.as_ref().and_then(|b| b.kind.as_ref())
    else {
        panic!("not the first available: {:?}", rule.backends);
    };
    let backend = first.backends[0].backend.as_ref().expect("a backend");
    assert_eq!(path(backend), "other.shop.svc.cluster.local:81");

    let grpc = policy.grpc_routes().remove(0);
    let rule = &grpc.rules[0];
    assert_eq!(
        rule.matches[0].rpc.as_ref().map(|rpc| &*rpc.method),
        Some("Get")
    );
    assert_eq!(rule.filters.len(), 2);
    let Some(metadata::Kind::Resource(route)) = grpc.metadata.and_then(|m| m.kind) else {
        panic!("the route is not a resource");
    };
    let names = (&*route.kind, &*route.namespace, &*route.name);
    assert_eq!(names, ("GRPCRoute", "shop", "route"));
}

fn path(backend: &Backend) -> String {
    let Some(backend::Kind::Balancer(balancer)) = &backend.kind else {
        panic!("not a balancer: {backend:?}");
    };
    let Some(backend::endpoint_discovery::Kind::Dst(get)) =
        balancer.discovery.as_ref().and_then(|d| d.kind.clone())
    else {
        panic!("no discovery: {balancer:?}");
    };
    get.path
}
