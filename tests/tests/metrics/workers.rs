//! Series of balancers, of one worker and of two.

use linkerd_control::{EndpointSet, Policy, Profile};
use linkerd_tests::{Mesh, Metrics, SOON, Server, Tcp, Wire, eventually, soon};
use std::time::{SystemTime, UNIX_EPOCH};

/// Variables of a proxy that fails fast after a second.
const FAILFAST: [&str; 2] = [
    "LINKERD2_PROXY_OUTBOUND_HTTP_FAILFAST_TIMEOUT",
    "LINKERD2_PROXY_OUTBOUND_TCP_FAILFAST_TIMEOUT",
];

/// A family of the HTTP balancers: its only series, or the sum of its series.
fn http(metrics: &Metrics, suffix: &str) -> f64 {
    metrics.sum(&format!("outbound_http_balancer_{suffix}"), &[])
}

fn unix_time() -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap().as_secs_f64()
}

/// Repeats requests over connections of their own until a counter of the HTTP balancers has this value.
async fn until(mesh: &Mesh, suffix: &str, count: f64) -> Metrics {
    eventually(SOON, suffix, || async {
        mesh.get("http://web/").await;
        let metrics = mesh.proxy.metrics().await;
        (http(&metrics, suffix) >= count).then_some(metrics)
    })
    .await
}

#[tokio::test]
async fn times_and_endpoints_of_two_workers_are_not_added() {
    let server = Server::says("hello").await;
    let builder = Mesh::builder().env("LINKERD2_PROXY_CORES", 2);
    let mesh = builder.env(FAILFAST[0], "1s").start().await;
    let web = mesh.service("web", []);
    let start = unix_time().floor();
    let shut = until(&mesh, "queue_gate_shut_total", 2.0).await;
    let time = http(&shut, "queue_gate_shut_time_seconds");
    assert!((start..=unix_time()).contains(&time), "{time}");
    assert_eq!(http(&shut, "queue_gate_timeout_seconds"), 1.0);
    assert_eq!(http(&shut, "queue_gate_open_time_seconds"), 0.0);

    web.set(EndpointSet::new([server.addr()]));
    let open = until(&mesh, "queue_gate_open_total", 2.0).await;
    let time = http(&open, "queue_gate_open_time_seconds");
    assert!((start..=unix_time()).contains(&time), "{time}");
    assert_eq!(http(&open, "p2c_endpoints"), 1.0);
    for (state, count) in [("ready", 1.0), ("pending", 0.0)] {
        let labels = [("endpoint_state", state)];
        let endpoints = open.sum("outbound_http_balancer_endpoints", &labels);
        assert_eq!(endpoints, count, "{state}");
    }
}

#[tokio::test]
async fn changes_of_endpoints_are_counted_and_a_balancer_that_is_gone_has_none() {
    let servers = [Server::says("a").await, Server::says("b").await];
    let idle = "LINKERD2_PROXY_OUTBOUND_DISCOVERY_IDLE_TIMEOUT";
    let builder = Mesh::builder().env(FAILFAST[0], "1s");
    let mesh = builder.env(idle, "1s").start().await;
    let web = mesh.service("web", []);
    assert_eq!(mesh.get("http://web/").await.status, 504);
    web.set(EndpointSet::new(servers.each_ref().map(Server::addr)));
    until(&mesh, "p2c_endpoints", 2.0).await;
    web.set(EndpointSet::default());
    let metrics = eventually(SOON, "the endpoints are gone", || async {
        let metrics = mesh.proxy.metrics().await;
        (http(&metrics, "p2c_endpoints") == 0.0).then_some(metrics)
    })
    .await;
    for (op, count) in [("Reset", 1.0), ("Add", 2.0), ("Remove", 2.0)] {
        let updates = "outbound_http_balancer_p2c_updates_total";
        let counted = metrics.value(updates, &[("op", op)]);
        assert_eq!(counted, Some(count), "{op}");
    }
    web.set(EndpointSet::new([servers[0].addr()]));
    until(&mesh, "p2c_endpoints", 1.0).await;

    let metrics = eventually(SOON, "the idle target is removed", || async {
        let state = mesh.proxy.admin.state().await;
        let targets = &state["workers"][0]["outbound"]["targets"];
        let is_gone = targets.as_array().unwrap().is_empty();
        is_gone.then_some(mesh.proxy.metrics().await)
    })
    .await;
    assert_eq!(http(&metrics, "p2c_endpoints"), 0.0);
    assert_eq!(http(&metrics, "endpoints"), 0.0);
    assert!(http(&metrics, "queue_gate_shut_time_seconds") > 0.0);
    assert_eq!(http(&metrics, "queue_gate_timeout_seconds"), 1.0);
}

#[tokio::test]
async fn an_opaque_balancer_has_its_gate_and_its_endpoints() {
    let db = Tcp::echo().await;
    let mesh = Mesh::builder().env(FAILFAST[1], "1s").start().await;
    let endpoints = mesh.service("db", []);
    mesh.policy("db").set(Policy::balance("db", 80).opaque());
    let mut wire = Wire::tunnel(mesh.proxy.outbound, "db:80").await;
    assert_eq!(soon(wire.rest()).await, "", "no endpoint");
    let labels = [
        ("parent_kind", "Service"),
        ("parent_name", "db"),
        ("backend_name", "db"),
        ("concrete", "db.default.svc.cluster.local:80"),
    ];
    let value = |metrics: &Metrics, suffix: &str| {
        metrics.value(&format!("outbound_tcp_balancer_{suffix}"), &labels)
    };
    let metrics = mesh.proxy.metrics().await;
    for (suffix, expected) in [
        ("queue_gate_shut_total", 1.0),
        ("queue_gate_open_total", 0.0),
        ("queue_gate_timeout_seconds", 1.0),
        ("queue_requests_total", 1.0),
        ("p2c_endpoints", 0.0),
    ] {
        assert_eq!(value(&metrics, suffix), Some(expected), "{suffix}");
    }
    endpoints.set(EndpointSet::new([db.addr()]));
    eventually(SOON, "the endpoint", || async {
        let metrics = mesh.proxy.metrics().await;
        (value(&metrics, "queue_gate_open_total") == Some(1.0)).then_some(())
    })
    .await;
    let metrics = mesh.proxy.metrics().await;
    assert_eq!(value(&metrics, "p2c_endpoints"), Some(1.0));
    let added = [&labels[..], &[("op", "Add")]].concat();
    let updates = "outbound_tcp_balancer_p2c_updates_total";
    assert_eq!(metrics.value(updates, &added), Some(1.0));
    // Without a profile, the target.
    let logical = [&labels[..], &[("logical", "db:80")]].concat();
    let requests = "outbound_tcp_balancer_queue_requests_total";
    assert_eq!(metrics.value(requests, &logical), Some(1.0));
}

#[tokio::test]
async fn the_logical_service_of_an_opaque_balancer_is_that_of_the_profile() {
    let db = Tcp::echo().await;
    let mesh = Mesh::start().await;
    let name = "db.default.svc.cluster.local";
    let target = format!("{name}:80");
    let policy = Policy::balance("replica", 80).opaque();
    mesh.controller.policy(&target).set(policy);
    mesh.controller.profile(&target).set(Profile::new(name));
    mesh.endpoints("replica").set(EndpointSet::new([db.addr()]));
    let mut wire = Wire::tunnel(mesh.proxy.outbound, &target).await;
    wire.send("query").await;
    soon(wire.until(b"query")).await;
    let metrics = mesh.proxy.metrics().await;
    let labels = [
        ("parent_name", "replica"),
        ("logical", &target),
        ("concrete", "replica.default.svc.cluster.local:80"),
    ];
    let requests = "outbound_tcp_balancer_queue_requests_total";
    assert_eq!(metrics.value(requests, &labels), Some(1.0));
    for name in ["balance", "endpoint"] {
        let labels = [("protocol", "opaq"), ("name", name)];
        let created = metrics.value("stack_create_total", &labels);
        assert_eq!(created, Some(1.0), "{name}");
        assert_eq!(metrics.value("stack_drop_total", &labels), Some(0.0));
    }
}

#[tokio::test]
async fn stacks_of_http_are_counted_when_they_are_made_and_when_they_are_dropped() {
    let server = Server::says("hello").await;
    let idle = "LINKERD2_PROXY_OUTBOUND_DISCOVERY_IDLE_TIMEOUT";
    let mesh = Mesh::builder().env(idle, "1s").start().await;
    mesh.service("web", [server.addr()]);
    mesh.policy("one").set(Policy::forward(server.addr()));
    mesh.get("http://web/").await;
    mesh.get("http://one/").await;
    for (family, name, count) in [
        ("stack_create_total", "balance", 1.0),
        ("stack_create_total", "forward", 1.0),
        ("stack_create_total", "endpoint", 2.0),
        ("stack_drop_total", "endpoint", 2.0),
    ] {
        let labels: &[_] = &[("protocol", "http"), ("name", name)];
        mesh.proxy.metric_reaches(family, labels, count).await;
        assert_eq!(
            mesh.proxy.metrics().await.value(family, labels),
            Some(count)
        );
    }
}
