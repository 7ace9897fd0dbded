//! Traffic of every kind that the proxy counts.

use crate::families::Scraped;
use http::StatusCode;
use http_body_util::BodyExt;
use linkerd_control::{
    Authorization, Endpoint, EndpointSet, InboundRoute, Policy, Profile, ProfileMatch,
    ProfileRoute, RateLimit, Route, RouteFilter, RouteMatch, RouteRetry, RouteRule, ServerPolicy,
    TlsRoute,
};
use linkerd_tests::{
    Collector, Grpc, Http1, Http2, Mesh, Meshed, Message, Proxy, SOON, Server, Tcp, Wire, body,
    client_hello, echo, eventually, grpc_handler,
    netns::{POD, Pod},
    refused, reply, request, soon,
};
use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

/// HTTP, gRPC, opaque and TLS traffic of policies, with retries, failures and spans.
pub async fn outbound(scraped: &mut Scraped) {
    let collector = Collector::start().await;
    let name = "LINKERD2_PROXY_TRACE_COLLECTOR_SVC_ADDR";
    let builder = Mesh::builder().env(name, collector.addr());
    let mesh = builder.start().await;
    let (web, tcp) = (flaky().await, Tcp::echo().await);
    let grpc = Server::start(grpc_handler).await;
    mesh.service("web", [web.addr()]);
    let retried = RouteRule::new().retry(RouteRetry::new(1).status(500..=599));
    let policy = Policy::balance("web", 80).route(Route::new("main").rule(retried));
    mesh.policy("web").set(policy);
    for _ in 0..3 {
        let post = request(http::Method::POST, "http://web/", body("hello"));
        soon(mesh.http1().await.send(post)).await.unwrap();
        soon(mesh.http2().await.get("http://web/")).await.unwrap();
    }
    mesh.service("grpc", [grpc.addr()]);
    let retried = RouteRule::new().retry(RouteRetry::new(1).code(14));
    let policy = Policy::balance("grpc", 80).grpc();
    mesh.policy("grpc")
        .set(policy.route(Route::new("main").rule(retried)));
    for text in ["hello", "fail:14"] {
        let client = mesh.grpc("grpc").await;
        let _ = soon(client.unary(Message::new(text, 0))).await;
    }
    let mut detected = Wire::tunnel(mesh.proxy.outbound, "web:80").await;
    detected.send("GET / HTTP/1.1\r\nhost: web\r\n\r\n").await;
    soon(detected.response()).await;

    mesh.service("db", [tcp.addr()]);
    mesh.policy("db").set(Policy::balance("db", 80).opaque());
    let mut opaque = Wire::tunnel(mesh.proxy.outbound, "db:80").await;
    opaque.send("\0query").await;
    opaque.until(b"query").await;
    opaque.finish().await;
    opaque.rest().await;

    let destination = "tls.default.svc.cluster.local:443";
    let endpoints = EndpointSet::new([tcp.addr()]);
    mesh.controller.destination(destination).set(endpoints);
    let policy = Policy::balance("tls", 443).tls_route(TlsRoute::new("any"));
    mesh.controller.policy("tls:443").set(policy);
    for bytes in [&*client_hello("any.test"), b"GET / HTTP/1.1\r\n\r\n"] {
        let mut tls = Wire::tunnel(mesh.proxy.outbound, "tls:443").await;
        tls.send(bytes).await;
        tls.finish().await;
        tls.rest().await;
    }
    let (gone, _guard) = refused();
    mesh.policy("gone").set(Policy::forward(gone));
    assert_eq!(mesh.get("http://gone/").await.status, 502);
    let errors = "outbound_tcp_errors_total";
    mesh.proxy.metric_reaches(errors, &[], 1.0).await;
    let closed = "outbound_tls_route_close_total";
    mesh.proxy.metric_reaches(closed, &[], 1.0).await;
    scraped.add(&mesh.proxy.metrics().await);
}

/// Routes of service profiles, with a budget for retries that is used up.
pub async fn profiles(scraped: &mut Scraped) {
    const NAME: &str = "web.default.svc.cluster.local";
    let web = flaky().await;
    let mesh = Mesh::with(&web).await;
    let route = ProfileRoute::new(ProfileMatch::path("/.*"));
    let route = route.label("route", "main").retryable();
    let slow = ProfileRoute::new(ProfileMatch::path("/slow")).timeout(Duration::from_millis(1));
    let ttl = Duration::from_secs(10);
    let profile = Profile::new(NAME)
        .route(slow)
        .route(route)
        .retry_budget(0.0, 1, ttl);
    let target = format!("{NAME}:80");
    mesh.controller
        .policy(&target)
        .set(Policy::balance("web", 80));
    mesh.controller.profile(&target).set(profile);
    for _ in 0..4 {
        mesh.get(&format!("http://{NAME}/")).await;
    }
    web.set_latency(Duration::from_secs(600));
    assert_eq!(mesh.get(&format!("http://{NAME}/slow")).await.status, 504);
    scraped.add(&mesh.proxy.metrics().await);
}

/// Traffic of two proxies with identities, one of which is a gateway.
pub async fn meshed(scraped: &mut Scraped) {
    let server = Server::says("hello").await;
    let gateway = |proxy: linkerd_tests::Builder| {
        proxy
            .env("LINKERD2_PROXY_INBOUND_GATEWAY_SUFFIXES", "svc.other.")
            .env("LINKERD_PROXY_INBOUND_ADMIT_LOOPBACK", "0")
    };
    let mesh = Meshed::start(|web| web, gateway).await;
    let policy = Policy::balance("server", 80);
    mesh.controller.policy("server.svc.other:80").set(policy);
    let endpoints = EndpointSet::new([Endpoint::new(server.addr())]);
    mesh.controller
        .destination("server.default.svc.cluster.local:80")
        .set(endpoints);
    mesh.serve_api(mesh.api.inbound, |endpoint| {
        endpoint.authority_override("server.svc.other:80")
    });
    let reply = soon(mesh.http1().await.get("http://api/")).await.unwrap();
    assert_eq!(reply.status, 200);
    for proxy in [&mesh.web, &mesh.api] {
        scraped.add(&proxy.metrics().await);
    }
}

/// Inbound traffic of policies: HTTP, gRPC and opaque; allowed, denied, limited, and without a route.
pub async fn inbound(scraped: &mut Scraped) {
    let at = || Server::builder().at(SocketAddr::from((POD, 0)));
    let http = at().start(|_| async { reply("hello") }).await;
    let grpc = at().start(grpc_handler).await;
    let opaque = Tcp::start_at(SocketAddr::from((POD, 0)), echo).await;
    let ports = [http.addr(), grpc.addr(), opaque.addr()].map(|addr| addr.port().to_string());
    let ports = ports.join(",");
    let pod = Pod::start(|proxy| proxy.env("LINKERD2_PROXY_INBOUND_PORTS", ports)).await;
    let elsewhere = || Authorization::of_networks("elsewhere", [(Ipv4Addr::new(192, 0, 2, 0), 24)]);
    let all = || Authorization::all("all");
    let rule = |path: &str| RouteRule::new().when(RouteMatch::prefix(path));
    let denied = Route::new("denied").rule(rule("/denied"));
    let failing = rule("/fail").filter(RouteFilter::fail(503, "on purpose"));
    let open = Route::new("open").rule(rule("/open")).rule(failing);
    let policy = ServerPolicy::new("http")
        .route(InboundRoute::new(denied).authorize(elsewhere()))
        .route(InboundRoute::new(open).authorize(all()));
    let application = http.addr();
    let get_of = |path: &'static str| {
        move || async move {
            let mut client = Http1::connect(application).await.host_form();
            let _ = soon(client.get(&format!("http://app{path}"))).await;
        }
    };
    let script = pod.controller.server(http.addr().port());
    script.set(policy.clone());
    let named = [("srv_name", "http")];
    let proxy = &pod.proxy;
    let allow = "inbound_http_authz_allow_total";
    until(proxy, allow, &named, get_of("/open")).await;
    let denials = "inbound_http_authz_deny_total";
    until(proxy, denials, &named, get_of("/denied")).await;
    let nearest = [("srv_name", "http"), ("unmet", "network")];
    proxy
        .metric_reaches("inbound_authz_denials_total", &nearest, 1.0)
        .await;
    let errors = "inbound_http_errors_total";
    until(proxy, errors, &named, get_of("/fail")).await;
    let not_found = "inbound_http_route_not_found_total";
    until(proxy, not_found, &named, get_of("/nowhere")).await;
    script.set(policy.rate_limit(RateLimit::new("limit").total(1)));
    let limited = "inbound_http_local_ratelimit_total";
    until(proxy, limited, &[], get_of("/open")).await;

    let policy = ServerPolicy::new("grpc").grpc().authorize(all());
    pod.controller.server(grpc.addr().port()).set(policy);
    until(proxy, "inbound_grpc_statuses_total", &[], || async {
        let client = Grpc::new(Http2::connect(grpc.addr()).await, "app");
        let _ = soon(client.unary(Message::new("hello", 0))).await;
    })
    .await;

    let script = pod.controller.server(opaque.addr().port());
    script.set(ServerPolicy::new("db").opaque().authorize(all()));
    let named = [("srv_name", "db")];
    let mut wire = eventually(SOON, "the policy of the opaque port", || async {
        let mut wire = Wire::connect(opaque.addr()).await;
        wire.send("\0query").await;
        wire.until(b"query").await;
        let metrics = proxy.metrics().await;
        (metrics.sum("inbound_tcp_authz_allow_total", &named) >= 1.0).then_some(wire)
    })
    .await;
    let policy = ServerPolicy::new("db").opaque();
    script.set(policy.authorize(elsewhere()));
    wire.rest().await;
    let denials = "inbound_tcp_authz_deny_total";
    until(proxy, denials, &named, || async {
        Wire::connect(opaque.addr()).await.rest().await;
    })
    .await;
    // A port without an application.
    let gone = at().start(|_| async { reply("") }).await.addr();
    until(proxy, "inbound_tcp_errors_total", &[], || async {
        let mut wire = Wire::connect(gone).await;
        wire.send("\0query\r\n\r\n").await;
        wire.rest().await;
    })
    .await;
    scraped.add(&proxy.metrics().await);
}

/// Repeats traffic until a family has a count.
async fn until<F: Future<Output = ()>>(
    proxy: &Proxy,
    family: &str,
    labels: &[(&str, &str)],
    traffic: impl Fn() -> F,
) {
    eventually(SOON, family, || async {
        traffic().await;
        let metrics = proxy.metrics().await;
        (metrics.sum(family, labels) >= 1.0).then_some(())
    })
    .await;
}

/// A server that answers every second request with 503.
async fn flaky() -> Server {
    let asked = AtomicUsize::new(0);
    Server::start(move |request| {
        let fails = asked.fetch_add(1, Relaxed).is_multiple_of(2);
        async move {
            let _ = request.into_body().collect().await;
            let mut response = reply("hello")?;
            if fails {
                *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            }
            Ok(response)
        }
    })
    .await
}
