//! TLS connections that are passed through, by routes of their server names.

#![allow(clippy::unwrap_used, missing_docs)]

use linkerd_control::{EndpointSet, Policy, TlsRoute};
use linkerd_tests::{Mesh, MeshBuilder, Tcp, Wire, client_hello, soon};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A server that reads to the end, and answers with its name.
async fn says(name: &'static str) -> Tcp {
    Tcp::start(move |mut socket| async move {
        let mut read = Vec::new();
        if socket.read_to_end(&mut read).await.is_ok() {
            let _ = socket.write_all(name.as_bytes()).await;
        }
    })
    .await
}

/// A mesh with two TLS services, `web` and `admin`, whose servers answer with their names.
async fn mesh(routes: impl IntoIterator<Item = TlsRoute>) -> (Mesh, [Tcp; 2]) {
    mesh_of(Mesh::builder(), routes).await
}

async fn mesh_of(
    builder: MeshBuilder,
    routes: impl IntoIterator<Item = TlsRoute>,
) -> (Mesh, [Tcp; 2]) {
    let servers = [says("web").await, says("admin").await];
    let mesh = builder.start().await;
    for (name, server) in ["web", "admin"].iter().zip(&servers) {
        let name = format!("{name}.default.svc.cluster.local:443");
        mesh.controller
            .destination(name)
            .set(EndpointSet::new([server.addr()]));
    }
    let policy = routes
        .into_iter()
        .fold(Policy::balance("web", 443), Policy::tls_route);
    mesh.controller.policy("web:443").set(policy);
    (mesh, servers)
}

/// The response to these bytes through a tunnel; empty if the connection is closed.
async fn answer(mesh: &Mesh, bytes: &[u8]) -> String {
    let mut wire = Wire::tunnel(mesh.proxy.outbound, "web:443").await;
    for piece in bytes.chunks(40) {
        wire.send(piece).await;
    }
    wire.finish().await;
    soon(wire.rest()).await
}

#[tokio::test]
async fn a_connection_goes_where_its_server_name_leads() {
    let (mesh, servers) = mesh([
        TlsRoute::new("suffix")
            .server_name("*.test")
            .to("admin", 443),
        TlsRoute::new("exact").server_name("web.test"),
        TlsRoute::new("forbidden")
            .server_name("no.test")
            .forbidden(),
    ])
    .await;
    for (name, expected) in [
        ("web.test", "web"),
        ("WEB.test", "web"),
        ("other.test", "admin"),
        ("a.b.test", "admin"),
        ("no.test", ""),
        ("test", ""),
    ] {
        assert_eq!(answer(&mesh, &client_hello(name)).await, expected, "{name}");
    }
    assert_eq!(servers.each_ref().map(Tcp::connections), [2, 2]);
    let metrics = mesh.proxy.metrics().await;
    for (route, error, expected) in [
        ("exact", "", 2.0),
        ("suffix", "", 2.0),
        ("forbidden", "forbidden", 1.0),
    ] {
        let labels = [("route_name", route), ("route_kind", "TLSRoute")];
        let opened = metrics.sum("outbound_tls_route_open_total", &labels);
        let labels = [labels[0], ("error", error)];
        let closed = metrics.sum("outbound_tls_route_close_total", &labels);
        assert_eq!((opened, closed), (expected, expected), "{route}");
    }
    let protocol = [("protocol", "tls")];
    let connections = "outbound_tcp_protocol_connections_total";
    assert_eq!(metrics.sum(connections, &protocol), 6.0);
    assert_eq!(metrics.sum("outbound_tls_balancer_p2c_endpoints", &[]), 2.0);
}

#[tokio::test]
async fn server_names_are_labels_if_asked_for_up_to_a_bound() {
    let variable = "LINKERD2_PROXY_OUTBOUND_METRICS_HOSTNAME_LABELS";
    let builder = Mesh::builder().env(variable, true);
    let (mesh, _servers) = mesh_of(builder, [TlsRoute::new("any")]).await;
    for name in ["Web.test", "web.test"] {
        assert_eq!(answer(&mesh, &client_hello(name)).await, "web");
    }
    for n in 0..100 {
        let name = format!("h{n}.test");
        assert_eq!(answer(&mesh, &client_hello(&name)).await, "web");
    }
    let metrics = mesh.proxy.metrics().await;
    for family in ["open", "close"].map(|end| format!("outbound_tls_route_{end}_total")) {
        for (name, count) in [("web.test", 2.0), ("h98.test", 1.0), ("other", 1.0)] {
            let labels = [("route_name", "any"), ("hostname", name)];
            assert_eq!(metrics.sum(&family, &labels), count, "{family} {name}");
        }
    }
    // Routes of all names share the balancer and its endpoint.
    for name in ["balance", "endpoint"] {
        let labels = [
            ("direction", "outbound"),
            ("protocol", "tls"),
            ("name", name),
        ];
        let created = metrics.value("stack_create_total", &labels);
        assert_eq!(created, Some(1.0), "{name}");
    }
}

#[tokio::test]
async fn a_client_that_names_no_server_is_closed_and_the_log_says_why() {
    let (mesh, servers) = mesh([TlsRoute::new("any")]).await;
    assert_eq!(answer(&mesh, &client_hello("any.test")).await, "web");
    assert_eq!(
        answer(&mesh, b"GET / HTTP/1.1\r\nhost: web\r\n\r\n").await,
        ""
    );
    assert_eq!(answer(&mesh, &client_hello("any.test")[..30]).await, "");
    assert_eq!(servers[0].connections(), 1);
    let errors = "outbound_tcp_errors_total";
    mesh.proxy.metric_reaches(errors, &[], 2.0).await;
}

#[tokio::test]
async fn an_update_applies_to_new_connections_and_leaves_those_that_are_open() {
    let (mesh, servers) = mesh([TlsRoute::new("any")]).await;
    let mut open = Wire::tunnel(mesh.proxy.outbound, "web:443").await;
    open.send(client_hello("any.test")).await;
    linkerd_tests::eventually(Duration::from_secs(20), "a connection", async || {
        (servers[0].connections() == 1).then_some(())
    })
    .await;
    let moved = Policy::balance("web", 443).tls_route(TlsRoute::new("any").to("admin", 443));
    mesh.controller.policy("web:443").set(moved);
    soon(async { while answer(&mesh, &client_hello("any.test")).await != "admin" {} }).await;
    open.finish().await;
    assert_eq!(soon(open.rest()).await, "web");
}
