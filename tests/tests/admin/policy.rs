//! The policy of the admin port.

use linkerd_api_proto::inbound::Server as ServerProto;
use linkerd_control::{
    Authorization, Endpoint, InboundRoute, Route, RouteMatch, RouteRule, Script, ServerPolicy,
};
use linkerd_tests::{Mesh, Meshed, Proxy, SOON, eventually, identity};
use std::net::Ipv4Addr;

/// Clients of the test are on loopback, which in a pod only has the pod's own clients.
const ADMIT_LOOPBACK: &str = "LINKERD_PROXY_INBOUND_ADMIT_LOOPBACK";

fn elsewhere() -> Authorization {
    Authorization::of_networks("elsewhere", [(Ipv4Addr::new(192, 0, 2, 0), 24)])
}

fn route(path: &str, authorization: Authorization) -> InboundRoute {
    let rule = RouteRule::new().when(RouteMatch::prefix(path));
    InboundRoute::new(Route::new(&path[1..]).rule(rule)).authorize(authorization)
}

/// Sets a policy that admits all clients to `/live`, and none to `/env.json`, and waits until it is in force.
async fn restrict(proxy: &Proxy, port: &Script<ServerProto>, metrics: Authorization) {
    let policy = ServerPolicy::new("admin")
        .route(route("/live", Authorization::all("probes")))
        .route(route("/metrics", metrics))
        .route(route("/env.json", elsewhere()));
    port.set(policy.build());
    eventually(SOON, "the policy is in force", || async {
        (proxy.admin.get("/env.json").await.status == 403).then_some(())
    })
    .await;
}

#[tokio::test]
async fn requests_are_let_in_by_the_routes_of_its_policy() {
    let mesh = Mesh::builder().env(ADMIT_LOOPBACK, "0").start().await;
    let admin = mesh.proxy.admin;
    let port = mesh.controller.server(admin.addr.port());
    restrict(&mesh.proxy, &port, Authorization::all("scrapers")).await;
    assert_eq!(admin.get("/live").await.status, 200);
    assert_eq!(admin.get("/state").await.status, 404);
    let line = mesh.proxy.wait_for_log("Request denied").await;
    for field in [
        "client.addr=127.0.0.1",
        "client.id=none",
        "server=server/admin",
        "HTTPRoute/env.json",
        "elsewhere",
        "network",
    ] {
        assert!(line.contains(field), "{line} lacks {field}");
    }
    let metrics = mesh.proxy.metrics().await;
    let target = admin.addr.to_string();
    let of_port = ("target_addr", &*target);
    for (family, label) in [
        ("inbound_http_authz_deny_total", ("route_name", "env.json")),
        ("inbound_http_authz_allow_total", ("authz_name", "probes")),
        ("inbound_http_route_not_found_total", ("srv_name", "admin")),
        ("request_total", ("route_name", "live")),
        ("response_total", ("route_name", "live")),
        ("tcp_open_total", ("peer", "src")),
    ] {
        assert!(metrics.sum(family, &[of_port, label]) >= 1.0, "{family}");
    }
    assert_eq!(
        metrics.sum("request_total", &[of_port, ("route_name", "env.json")]),
        0.0
    );
}

#[tokio::test]
async fn what_the_policy_refuses_is_a_failure_with_its_reason() {
    let mesh = Mesh::builder().env(ADMIT_LOOPBACK, "0").start().await;
    let admin = mesh.proxy.admin;
    let policy = ServerPolicy::new("admin")
        .route(route("/state", Authorization::all("all")))
        .route(route("/metrics", Authorization::all("all")))
        .route(route("/env.json", elsewhere()));
    mesh.controller
        .server(admin.addr.port())
        .set(policy.build());
    eventually(SOON, "the policy is in force", || async {
        (admin.get("/env.json?token=secret").await.status == 403).then_some(())
    })
    .await;
    let state = admin.state().await;
    let failure = &state["failures"]["last"][0];
    for (field, value) in [
        ("direction", "inbound"),
        ("reason", "unauthorized"),
        ("origin", "client"),
        ("path", "/env.json"),
    ] {
        assert_eq!(failure[field], value, "{field} of {failure}");
    }
    assert!(!failure["hint"].as_str().unwrap().is_empty(), "{failure}");
    let failures = mesh.proxy.metrics().await;
    let counted = [("reason", "unauthorized"), ("direction", "inbound")];
    assert_eq!(failures.sum("proxy_failures_total", &counted), 1.0);
}

#[tokio::test]
async fn a_scraper_of_the_mesh_is_let_in_by_its_identity() {
    let mesh = Meshed::start(|web| web, |api| api.env(ADMIT_LOOPBACK, "0")).await;
    let admin = mesh.api.admin;
    mesh.serve_api(admin.addr, |_| {
        Endpoint::new(admin.addr).identity(identity("api"))
    });
    let handshakes = &admin.state().await["admin"]["handshakes"];
    assert_eq!(handshakes["limit"], 1024, "{handshakes}");
    let port = mesh.controller.server(admin.addr.port());
    let web = Authorization::all("web").identity(&identity("web"));
    restrict(&mesh.api, &port, web).await;
    assert_eq!(admin.get("/metrics").await.status, 403);
    let mut scraper = mesh.http1().await;
    let reply = scraper.get("http://api/metrics").await.unwrap();
    assert_eq!(reply.status, 200, "{reply:?}");
    let reply = mesh.http2().await.get("http://api/metrics").await.unwrap();
    let client = format!("client_id=\"{}\"", identity("web"));
    let line = reply.text().lines().find(|line| {
        line.starts_with("request_total{direction=\"inbound\"") && line.contains(&client)
    });
    assert!(line.is_some(), "{}", reply.text());
    assert_eq!(
        scraper.get("http://api/env.json").await.unwrap().status,
        403
    );
}

#[tokio::test]
async fn the_default_policy_locks_nobody_out_who_is_in_the_pod() {
    let default = "LINKERD2_PROXY_INBOUND_DEFAULT_POLICY";
    let mesh = Mesh::builder().env(default, "all-authenticated");
    let mesh = mesh.env(ADMIT_LOOPBACK, "0").start().await;
    let admin = mesh.proxy.admin;
    for path in ["/live", "/ready", "/metrics", "/state"] {
        assert_eq!(admin.get(path).await.status, 200, "{path}");
    }
    let denied = mesh.proxy.metrics().await;
    assert_eq!(denied.sum("inbound_http_authz_deny_total", &[]), 0.0);
    // A policy of the control plane overrides all defaults.
    let port = mesh.controller.server(admin.addr.port());
    restrict(&mesh.proxy, &port, elsewhere()).await;
    assert_eq!(admin.get("/metrics").await.status, 403);
}
