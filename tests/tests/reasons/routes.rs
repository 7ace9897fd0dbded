//! Policies, routes and their limits.

use crate::{
    impatient, provoke,
    seen::{Seen, answered, unanswered},
};
use linkerd_api_proto::{
    http_route::{PathModifier, RequestRedirect, path_modifier::Replace},
    outbound::{OutboundPolicy, http_route::distribution, proxy_protocol},
};
use linkerd_control::{
    Endpoint, EndpointSet, Policy, Profile, ProfileMatch, ProfileRoute, Protocol, Route,
    RouteFilter, RouteMatch, RouteRetry, RouteRule, RouteTimeouts, TlsRoute,
};
use linkerd_tests::{Mesh, SOON, Server, Tcp, Wire, client_hello, eventually};
use std::{future::pending, time::Duration};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const LIMIT: Duration = Duration::from_millis(100);
const NAME: &str = "web.default.svc.cluster.local";

provoke! {
    no_route => async |reason: &'static str| rule(RouteRule::new().when(RouteMatch::exact("/other")), reason).await;
    request_timeout => async |reason: &'static str| limited(RouteTimeouts::new().request(LIMIT), reason).await;
    response_timeout => async |reason: &'static str| limited(RouteTimeouts::new().response(LIMIT), reason).await;
    response_headers_timeout => async |reason: &'static str| {
        let (mesh, server) = silent().await;
        // The backend fails fast after 0.3 s.
        let late = Duration::from_secs(3);
        let retries = RouteRule::new().retry(RouteRetry::new(1).status(500..=599).timeout(late));
        let route = Route::new("web").rule(retries);
        mesh.policy("web").set(Policy::balance("web", 80).route(route));
        let waiting = tokio::spawn(mesh.get("http://web/"));
        eventually(SOON, "it is sent", || async { (server.requests() == 1).then_some(()) }).await;
        mesh.endpoints("web").set(EndpointSet::new(Vec::<Endpoint>::new()));
        eventually(SOON, "the endpoint is gone", || async {
            let endpoints = mesh.proxy.metrics().await.sum("outbound_http_balancer_endpoints", &[]);
            (endpoints == 0.0).then_some(())
        })
        .await;
        eventually(SOON, "no backend takes a request", || async {
            (mesh.get("http://web/").await.status == 503).then_some(())
        })
        .await;
        answered(&mesh.proxy, &waiting.await.unwrap(), reason).await
    };
    idle_timeout => async |reason: &'static str| {
        let (mesh, _server) = silent().await;
        let half = Tcp::start(|mut socket| async move {
            let head = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf";
            let _ = socket.read(&mut [0; 1024]).await;
            let _ = socket.write_all(head).await;
            pending::<()>().await;
        })
        .await;
        mesh.service("web", [half.addr()]);
        let idle = RouteRule::new().timeouts(RouteTimeouts::new().idle(LIMIT));
        let route = Route::new("web").rule(idle);
        mesh.policy("web").set(Policy::balance("web", 80).route(route));
        let broken = mesh.http1().await.get("http://web/").await;
        assert!(broken.is_err(), "{broken:?}");
        unanswered(&mesh.proxy, reason).await
    };
    profile_timeout => async |reason: &'static str| {
        let (mesh, _server) = silent().await;
        let name = format!("{NAME}:80");
        mesh.controller.policy(name.clone()).set(Policy::balance("web", 80));
        let route = ProfileRoute::new(ProfileMatch::path("/.*")).timeout(LIMIT);
        mesh.controller.profile(name).set(Profile::new(NAME).route(route));
        let reply = mesh.get(&format!("http://{NAME}/")).await;
        answered(&mesh.proxy, &reply, reason).await
    };
    injected_failure => async |reason: &'static str| {
        rule(RouteRule::new().filter(RouteFilter::fail(503, "on purpose")), reason).await
    };
    invalid_redirect => async |reason: &'static str| {
        let redirect = RequestRedirect {
            path: Some(PathModifier {
                replace: Some(Replace::Prefix("/new".to_owned())),
            }),
            ..Default::default()
        };
        let exact = RouteRule::new().when(RouteMatch::exact("/"));
        rule(exact.filter(RouteFilter::Redirect(redirect)), reason).await
    };
    invalid_backend => async |reason: &'static str| {
        let mesh = impatient().start().await;
        mesh.policy("web").set(without_dispatcher(Policy::balance("web", 80).http1().build()));
        got(&mesh, reason).await
    };
    no_backend => async |reason: &'static str| {
        rule(RouteRule::new().split([("web", 80, 0), ("other", 80, 0)]), reason).await
    };
    invalid_policy => async |reason: &'static str| {
        let mesh = impatient().start().await;
        mesh.policy("web").set(OutboundPolicy::default());
        got(&mesh, reason).await
    };
    unknown_destination => async |reason: &'static str| got(&impatient().start().await, reason).await;
    discovery_rejected => async |reason: &'static str| {
        let mesh = impatient().start().await;
        let refused = tonic::Status::failed_precondition("not for you");
        mesh.policy("web").fail(refused);
        got(&mesh, reason).await
    };
    destination_limit => async |reason: &'static str| {
        let server = Server::says("hello").await;
        let builder = impatient().env("LINKERD_PROXY_DISCOVERY_MAX_DESTINATIONS", 1);
        let mesh = builder.start().await;
        mesh.service("other", [server.addr()]);
        mesh.service("web", [server.addr()]);
        // The target `other` is in use while this connection is open.
        let mut client = mesh.http1().await;
        client.get("http://other/").await.unwrap();
        got(&mesh, reason).await
    };
    forbidden => async |reason: &'static str| {
        let mesh = impatient().start().await;
        let route = TlsRoute::new("forbidden").server_name("no.test").forbidden();
        mesh.policy("web").set(Policy::balance("web", 443).protocol(Protocol::Tls).tls_route(route));
        let mut wire = Wire::tunnel(mesh.proxy.outbound, "web:80").await;
        wire.send(client_hello("no.test")).await;
        assert!(wire.closes_within(SOON).await);
        unanswered(&mesh.proxy, reason).await
    };
    no_server_name => async |reason: &'static str| {
        let mesh = impatient().start().await;
        let route = TlsRoute::new("named").server_name("web.test");
        mesh.policy("web").set(Policy::balance("web", 443).protocol(Protocol::Tls).tls_route(route));
        let mut wire = Wire::tunnel(mesh.proxy.outbound, "web:80").await;
        wire.send("not TLS at all, and long enough to be told from it\r\n\r\n").await;
        assert!(wire.closes_within(SOON).await);
        unanswered(&mesh.proxy, reason).await
    };
}

async fn got(mesh: &Mesh, reason: &'static str) -> Seen {
    answered(&mesh.proxy, &mesh.get("http://web/").await, reason).await
}

/// A service whose server never answers.
async fn silent() -> (Mesh, Server) {
    let server = Server::start(|_| pending()).await;
    let mesh = impatient().start().await;
    mesh.service("web", [server.addr()]);
    (mesh, server)
}

async fn limited(timeouts: RouteTimeouts, reason: &'static str) -> Seen {
    rule(RouteRule::new().timeouts(timeouts), reason).await
}

/// Sends a request by this rule to a server that never answers.
async fn rule(rule: RouteRule, reason: &'static str) -> Seen {
    let (mesh, _server) = silent().await;
    let route = Route::new("web").rule(rule);
    mesh.policy("web")
        .set(Policy::balance("web", 80).route(route));
    got(&mesh, reason).await
}

/// The policy with a backend that has no `kind`, so no way to its endpoints.
fn without_dispatcher(mut policy: OutboundPolicy) -> OutboundPolicy {
    let kind = policy.protocol.as_mut().unwrap().kind.as_mut();
    let Some(proxy_protocol::Kind::Http1(http1)) = kind else {
        panic!("it is HTTP/1");
    };
    let backends = http1.routes[0].rules[0].backends.as_mut().unwrap();
    let Some(distribution::Kind::FirstAvailable(first)) = &mut backends.kind else {
        panic!("there is one backend");
    };
    let backend = first.backends[0].backend.as_mut().unwrap();
    backend.kind = None;
    policy
}
