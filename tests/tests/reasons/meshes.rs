//! Peers of the mesh, and the inbound side.

use crate::{
    crowd, provoke,
    seen::{Seen, unanswered},
};
use linkerd_control::{
    Authority, Authorization, Endpoint, EndpointSet, Policy, RateLimit, ServerPolicy,
};
use linkerd_tests::{
    Builder, Meshed, Proxy, SOON, Server, Wire, client_hello, eventually, get, identity,
    real_client_hello,
};

provoke! {
    tls_failed => async |reason: &'static str| {
        let (mesh, server) = mesh(|api| api).await;
        let named = |endpoint: Endpoint| endpoint.identity(identity("other")).server_name(identity("other"));
        mesh.serve_api(server.addr(), named);
        requested(&mesh, &mesh.web, "", reason).await
    };
    identity_mismatch => async |reason: &'static str| {
        let (mesh, server) = mesh(|api| api).await;
        let named = |endpoint: Endpoint| endpoint.identity(identity("other")).server_name(identity("api"));
        mesh.serve_api(server.addr(), named);
        requested(&mesh, &mesh.web, "", reason).await
    };
    unauthorized => async |reason: &'static str| {
        let (mesh, server) = mesh(|api| api).await;
        let guests = Authorization::all("guests").identity(&identity("guest"));
        let port = mesh.controller.server(server.addr().port());
        port.set(ServerPolicy::new("api").authorize(guests).build());
        requested(&mesh, &mesh.api, "", reason).await
    };
    rate_limited => async |reason: &'static str| {
        let (mesh, server) = mesh(|api| api).await;
        let limited = ServerPolicy::new("api").authorize(Authorization::all("all"));
        let limited = limited.rate_limit(RateLimit::new("limit").total(1));
        mesh.controller.server(server.addr().port()).set(limited.build());
        requested(&mesh, &mesh.api, "", reason).await
    };
    gateway_not_allowed => async |reason: &'static str| {
        let (mesh, server) = gateway().await;
        behind(&mesh, "server.svc.elsewhere:80");
        let seen = requested(&mesh, &mesh.api, "", reason).await;
        assert_eq!(server.requests(), 0);
        seen
    };
    gateway_loop => async |reason: &'static str| {
        let (mesh, _server) = gateway().await;
        behind(&mesh, "server.svc.other:80");
        let forwarded = format!("for=x;by={}", identity("api"));
        requested(&mesh, &mesh.api, &forwarded, reason).await
    };
    no_transport_header => async |reason: &'static str| {
        let (mesh, _server) = mesh(|api| api).await;
        // The proxy's own port in place of the application's.
        let endpoint = Endpoint::new(mesh.api.inbound).identity(identity("api"));
        let destination = mesh.controller.destination("api.default.svc.cluster.local:80");
        destination.set(EndpointSet::new([endpoint]));
        requested(&mesh, &mesh.api, "", reason).await
    };
    not_meshed => async |reason: &'static str| {
        inbound(|api| api, b"GET / HTTP/1.1\r\nhost: api\r\n\r\n", reason).await
    };
    not_allowed_address => async |reason: &'static str| {
        let ips = |api: Builder| api.env("LINKERD2_PROXY_INBOUND_IPS", "192.0.2.1");
        inbound(ips, b"GET / HTTP/1.1\r\nhost: api\r\n\r\n", reason).await
    };
    client_tls_failed => async |reason: &'static str| {
        inbound(|api| api, &client_hello(&identity("api")), reason).await
    };
    tls_detection_timeout => async |reason: &'static str| {
        let hello = client_hello(&identity("api"));
        let brief = |api: Builder| api.env("LINKERD2_PROXY_INBOUND_DETECT_TIMEOUT", "200ms");
        inbound(brief, &hello[..20], reason).await
    };
    client_untrusted => async |reason: &'static str| {
        let server = Server::start(|_| std::future::pending()).await;
        let logs = |proxy: Builder| proxy.env("LINKERD2_PROXY_LOG", "warn,linkerd=debug");
        let mesh = Meshed::start_with_anchors_file_of_api(logs).await;
        mesh.serve_api(server.addr(), |endpoint| endpoint);
        let mut client = mesh.http1().await;
        let request = tokio::spawn(async move { client.get("http://api/").await });
        eventually(SOON, "the request arrives", || async {
            (server.in_flight() == 1).then_some(())
        })
        .await;
        mesh.trust(&[&Authority::generate("new").unwrap()]);
        let seen = unanswered(&mesh.api, reason).await;
        request.abort();
        seen
    };
    handshake_limit => async |reason: &'static str| {
        let (mesh, _server) = mesh(|api| api).await;
        let wires = crowd(mesh.api.inbound, &real_client_hello(&identity("api"))).await;
        let seen = unanswered(&mesh.api, reason).await;
        drop(wires);
        seen
    };
    no_certificate => async |reason: &'static str| {
        let (mesh, _server) = mesh(|api| api).await;
        mesh.controller.identity().fail(tonic::Status::permission_denied("not for you"));
        let late = mesh.proxy("late").env("LINKERD2_PROXY_LOG", "warn,linkerd=debug");
        let late = late.start_unready().await;
        let mut wire = Wire::connect(late.inbound).await;
        wire.send(client_hello(&identity("late"))).await;
        let seen = unanswered(&late, reason).await;
        drop(wire);
        seen
    };
}

/// Two proxies, the service `api`, and the server behind it.
async fn mesh(api: impl FnOnce(Builder) -> Builder) -> (Meshed, Server) {
    let server = Server::says("hello").await;
    let logs = |proxy: Builder| proxy.env("LINKERD2_PROXY_LOG", "warn,linkerd=debug");
    let mesh = Meshed::start(logs, |proxy| {
        // Clients of the test are on loopback, which in a pod only has the pod's own clients.
        api(logs(proxy)).env("LINKERD_PROXY_INBOUND_ADMIT_LOOPBACK", 0)
    })
    .await;
    mesh.serve_api(server.addr(), |endpoint| endpoint);
    (mesh, server)
}

/// The mesh with `api` as a gateway to names below `svc.other`.
async fn gateway() -> (Meshed, Server) {
    let suffixes = "LINKERD2_PROXY_INBOUND_GATEWAY_SUFFIXES";
    let (mesh, server) = mesh(|api| api.env(suffixes, "svc.other.")).await;
    let policy = Policy::balance("server", 80);
    mesh.controller.policy("server.svc.other:80").set(policy);
    let destination = mesh
        .controller
        .destination("server.default.svc.cluster.local:80");
    destination.set(EndpointSet::new([Endpoint::new(server.addr())]));
    (mesh, server)
}

/// Sends requests for `api` to the gateway, with `name` as the authority.
fn behind(mesh: &Meshed, name: &str) {
    mesh.serve_api(mesh.api.inbound, |endpoint| {
        endpoint.authority_override(name)
    });
}

/// Sends requests until `proxy` fails one for this reason.
async fn requested(mesh: &Meshed, proxy: &Proxy, forwarded: &str, reason: &'static str) -> Seen {
    let labels = [("reason", reason)];
    eventually(SOON, reason, || async {
        let mut request = get("http://api/");
        if !forwarded.is_empty() {
            let forwarded = forwarded.parse().unwrap();
            request.headers_mut().insert("forwarded", forwarded);
        }
        let _ = mesh.http1().await.send(request).await;
        let metrics = proxy.metrics().await;
        (metrics.sum("proxy_failures_total", &labels) > 0.0).then_some(())
    })
    .await;
    unanswered(proxy, reason).await
}

/// Sends bytes to the proxy's own port.
async fn inbound(api: impl FnOnce(Builder) -> Builder, bytes: &[u8], reason: &'static str) -> Seen {
    let (mesh, server) = mesh(api).await;
    let mut wire = Wire::connect(mesh.api.inbound).await;
    wire.send(bytes).await;
    let seen = unanswered(&mesh.api, reason).await;
    assert_eq!(server.requests(), 0);
    drop(wire);
    seen
}
