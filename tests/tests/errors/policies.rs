//! Policies that forbid traffic, are unknown, or are invalid.

use crate::Expect;
use linkerd_api_proto::outbound::OutboundPolicy;
use linkerd_control::Policy;
use linkerd_tests::{Mesh, SOON};

#[tokio::test]
async fn a_destination_that_nobody_knows() {
    let mesh = Mesh::start().await;
    let expect = Expect {
        status: 502,
        reason: "unknown_destination",
        text: "no service at nowhere:80",
        closes: false,
    };
    let reply = mesh.get("http://nowhere/").await;
    expect.check(&mesh, &reply).await;
}

#[tokio::test]
async fn a_destination_that_the_control_plane_refuses_to_tell_of() {
    let mesh = Mesh::start().await;
    mesh.policy("web")
        .fail(tonic::Status::failed_precondition("not for you"));
    let expect = Expect {
        status: 502,
        reason: "discovery_rejected",
        text: "not for you",
        closes: true,
    };
    expect.check(&mesh, &mesh.get("http://web/").await).await;
}

#[tokio::test]
async fn a_policy_that_makes_no_sense() {
    let mesh = Mesh::start().await;
    mesh.policy("web").set(OutboundPolicy::default());
    let expect = Expect {
        status: 500,
        reason: "invalid_policy",
        text: "unexpected error",
        closes: true,
    };
    expect.check(&mesh, &mesh.get("http://web/").await).await;
}

#[tokio::test]
async fn a_service_without_backends_is_unavailable() {
    let mesh = Mesh::start().await;
    mesh.policy("web").set(Policy::empty("web", 80));
    let expect = Expect {
        status: 503,
        reason: "unavailable_no_endpoints",
        text: "service unavailable",
        closes: true,
    };
    expect.check(&mesh, &mesh.get("http://web/").await).await;
}

#[tokio::test]
async fn a_connection_over_the_policy_of_an_opaque_port_is_not_http() {
    // HTTP through a tunnel to an opaque port is opaque: the endpoint answers, not the proxy.
    let server = linkerd_tests::Server::says("hello").await;
    let mesh = Mesh::start().await;
    mesh.service("web", [server.addr()]);
    mesh.policy("web").set(Policy::balance("web", 80).opaque());
    let mut wire = linkerd_tests::Wire::tunnel(mesh.proxy.outbound, "web:80").await;
    wire.send("GET / HTTP/1.1\r\nhost: web\r\n\r\n").await;
    assert!(wire.head().await.starts_with("HTTP/1.1 200"));
    mesh.policy("web").expect_lookup(SOON).await.unwrap();
    let metrics = mesh.proxy.metrics().await;
    assert_eq!(
        metrics.sum("request_total", &[("direction", "outbound")]),
        0.0
    );
}
