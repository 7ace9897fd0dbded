//! A proxy as a gateway: connections whose transport headers name a service are forwarded to it.

#![allow(clippy::unwrap_used, missing_docs)]

use linkerd_api_proto::otlp::kind;
use linkerd_control::{Authorization, Endpoint, EndpointSet, Policy, Protocol, ServerPolicy};
use linkerd_tests::{
    Builder, Collector, Meshed, Server, Tcp, Wire, attribute, get, identity, soon,
};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const SUFFIXES: &str = "LINKERD2_PROXY_INBOUND_GATEWAY_SUFFIXES";

/// A mesh whose proxy `api` is a gateway to names below `svc.other`, where `server` is at this address.
async fn gateway(server: SocketAddr) -> Meshed {
    gateway_with(server, |proxy| proxy).await
}

/// A gateway as above, with settings for both proxies.
async fn gateway_with(server: SocketAddr, both: impl Fn(Builder) -> Builder) -> Meshed {
    let api = |api: Builder| {
        // Clients of the test are on loopback, which in a pod only has the pod's own clients.
        both(api)
            .env(SUFFIXES, "svc.other.")
            .env("LINKERD_PROXY_INBOUND_ADMIT_LOOPBACK", "0")
    };
    let mesh = Meshed::start(&both, api).await;
    let policy = Policy::balance("server", 80);
    mesh.controller.policy("server.svc.other:80").set(policy);
    let destination = "server.default.svc.cluster.local:80";
    let endpoints = EndpointSet::new([Endpoint::new(server)]);
    mesh.controller.destination(destination).set(endpoints);
    mesh
}

/// Makes `api` a service behind the gateway, where it has this name.
fn behind(mesh: &Meshed, name: &str, endpoint: impl FnOnce(Endpoint) -> Endpoint) {
    mesh.serve_api(mesh.api.inbound, |meshed| {
        endpoint(meshed).authority_override(name)
    });
}

#[tokio::test]
async fn requests_are_forwarded_and_say_by_whom() {
    let server = Server::says("hello").await;
    let mesh = gateway(server.addr()).await;
    behind(&mesh, "server.svc.other:80", |endpoint| endpoint);
    let reply = mesh.http1().await.get("http://api/").await.unwrap();
    assert_eq!((reply.status.as_u16(), reply.text()), (200, "hello"));
    let reply = mesh.http2().await.get("http://api/").await.unwrap();
    assert_eq!(reply.status, 200);
    // HTTP/1 is carried over HTTP/2 to a gateway, too.
    behind(&mesh, "server.svc.other:80", Endpoint::h2);
    let reply = mesh.http1().await.get("http://api/").await.unwrap();
    assert_eq!(reply.status, 200);
    let forwarded = format!(
        "by={};for={};host=server.svc.other;proto=https",
        identity("api"),
        identity("web")
    );
    let seen = server.seen();
    assert!(
        seen.iter()
            .all(|seen| seen.headers["forwarded"] == *forwarded)
    );
    assert_eq!(seen[0].headers["host"], "server.svc.other");

    let metrics = mesh.api.metrics().await;
    assert!(metrics.sum("request_total", &[("direction", "outbound")]) >= 3.0);
    let port = mesh.api.inbound.port().to_string();
    let admitted = [("target_port", &*port), ("tls", "true")];
    assert_eq!(
        metrics.sum("inbound_http_authz_allow_total", &admitted),
        3.0
    );
    let names = [("target_name", "server.svc.other"), ("target_port", "80")];
    let family = "inbound_tcp_transport_header_connections_total";
    assert!(metrics.sum(family, &names) >= 2.0);
}

#[tokio::test]
async fn a_gateway_has_a_span_of_the_request_and_one_of_its_attempt() {
    let server = Server::says("hello").await;
    let collector = Collector::start().await;
    let traced =
        |proxy: Builder| proxy.env("LINKERD2_PROXY_TRACE_COLLECTOR_SVC_ADDR", collector.addr());
    let mesh = gateway_with(server.addr(), traced).await;
    behind(&mesh, "server.svc.other:80", |endpoint| endpoint);
    let mut asked = get("http://api/traced");
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    asked
        .headers_mut()
        .insert("traceparent", parent.parse().unwrap());
    let reply = soon(mesh.http1().await.send(asked)).await.unwrap();
    assert_eq!(reply.status, 200);
    let chain = collector
        .wait_for("spans of both proxies", |spans| {
            let mut parent = "b7ad6b7169203331".to_owned();
            let mut chain = Vec::new();
            while let Some(span) = spans
                .iter()
                .find(|span| hex(&span.parent_span_id) == parent)
            {
                parent = hex(&span.span_id);
                chain.push((
                    attribute(&span.attributes, "direction")?,
                    span.kind,
                    parent.clone(),
                ));
            }
            (chain.len() == 4).then_some(chain)
        })
        .await;
    let sides: Vec<_> = chain
        .iter()
        .map(|(side, kind, _)| (&**side, *kind))
        .collect();
    let expected = [
        ("outbound", kind::SERVER),
        ("outbound", kind::CLIENT),
        ("inbound", kind::SERVER),
        ("inbound", kind::CLIENT),
    ];
    assert_eq!(sides, expected);
    let seen = server.last().headers["traceparent"].clone();
    let last = &chain[3].2;
    assert!(
        seen.to_str().unwrap().contains(&format!("-{last}-")),
        "{seen:?}"
    );
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn other_names_and_loops_are_refused() {
    let server = Server::says("hello").await;
    let mesh = gateway(server.addr()).await;
    behind(&mesh, "server.svc.elsewhere:80", |endpoint| endpoint);
    let reply = mesh.http1().await.get("http://api/").await.unwrap();
    assert_eq!(reply.status, 404);
    let not_allowed = [("error", "gateway domain invalid")];
    let errors = "inbound_http_errors_total";
    mesh.api.metric_reaches(errors, &not_allowed, 1.0).await;

    behind(&mesh, "server.svc.other:80", |endpoint| endpoint);
    let until = async |status: u16, forwarded: &str| {
        soon(async {
            loop {
                let mut request = get("http://api/");
                let value = forwarded.parse().unwrap();
                request.headers_mut().insert("forwarded", value);
                let mut client = mesh.http1().await;
                if client.send(request).await.unwrap().status == status {
                    return;
                }
            }
        })
        .await;
    };
    until(200, "by=elsewhere;for=client").await;
    let seen = server.requests();
    until(508, &format!("for=x;by={}", identity("api"))).await;
    assert_eq!(server.requests(), seen);
    let loops = [("error", "gateway loop")];
    mesh.api.metric_reaches(errors, &loops, 1.0).await;

    // The policy of the proxy's own port admits its clients.
    let guests = Authorization::all("guests").identity(&identity("guest"));
    let own = mesh.controller.server(mesh.api.inbound.port());
    own.set(ServerPolicy::new("gateway").authorize(guests).build());
    until(403, "for=client").await;
}

#[tokio::test]
async fn opaque_connections_are_forwarded() {
    let server = Tcp::start(|mut socket| async move {
        let mut read = Vec::new();
        if socket.read_to_end(&mut read).await.is_ok() {
            let _ = socket.write_all(&read).await;
        }
    })
    .await;
    let mesh = gateway(server.addr()).await;
    let opaque = |name| Policy::balance(name, 80).protocol(Protocol::Opaque);
    mesh.controller
        .policy("server.svc.other:80")
        .set(opaque("server"));
    behind(&mesh, "server.svc.other:80", Endpoint::opaque);
    mesh.controller.policy("api:80").set(opaque("api"));
    let mut wire = Wire::connect(mesh.web.outbound).await;
    wire.send("CONNECT api:80 HTTP/1.1\r\nhost: api:80\r\n\r\n")
        .await;
    let head = wire.until(b"\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    wire.send("through the gateway").await;
    wire.finish().await;
    assert_eq!(wire.rest().await, "through the gateway");
}
