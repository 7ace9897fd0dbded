//! Opaque profiles.

use crate::{DST, NAME, Profiled, named, profile};
use linkerd_control::{EndpointSet, Policy, Profile, ProfileMatch};
use linkerd_tests::{Tcp, Wire};

/// An echo server behind an opaque profile and this policy.
async fn opaque(policy: Policy, profile: Profile) -> (Profiled, Tcp) {
    let server = Tcp::echo().await;
    let profiled = Profiled::start(profile.opaque()).await;
    profiled.mesh.controller.policy(DST).set(policy);
    profiled
        .mesh
        .endpoints("web")
        .set(EndpointSet::new([server.addr()]));
    (profiled, server)
}

async fn echoes(profiled: &Profiled) {
    let mut wire = Wire::tunnel(profiled.mesh.proxy.outbound, DST).await;
    // Bytes that protocol detection would take for HTTP.
    let bytes = b"GET / HTTP/1.1\r\n\r\n";
    wire.send(bytes).await;
    assert_eq!(wire.bytes(bytes.len()).await, bytes);
}

#[tokio::test]
async fn a_profile_that_says_opaque_counts_before_the_policy_and_its_routes() {
    let routes = profile([named("path", ProfileMatch::path("/.*"))]);
    let (profiled, _server) = opaque(Policy::balance("web", 80), routes).await;
    echoes(&profiled).await;
    assert_eq!(profiled.requests("path").await, 0.0);
}

#[tokio::test]
async fn its_targets_take_the_connections_whatever_the_policy() {
    for policy in [
        Policy::balance("gone", 80),
        Policy::balance("gone", 80).http1(),
    ] {
        let (profiled, server) = opaque(policy, Profile::new(NAME).target(DST, 1)).await;
        echoes(&profiled).await;
        assert_eq!(server.connections(), 1);
    }
}

#[tokio::test]
async fn without_targets_and_with_a_policy_for_http_it_is_an_error_of_its_target_alone() {
    for policy in [
        Policy::balance("web", 80).http1(),
        Policy::balance("web", 80).http2(),
        Policy::balance("web", 80).grpc(),
    ] {
        let (mut profiled, server) = opaque(policy, Profile::new(NAME)).await;
        let mut wire = Wire::tunnel(profiled.mesh.proxy.outbound, DST).await;
        wire.send(b"hello").await;
        assert_eq!(wire.rest().await, "");
        let log = "the policy is not for opaque connections";
        profiled.mesh.proxy.wait_for_log(log).await;
        assert_eq!(server.connections(), 0);
        // The proxy and its other targets go on.
        assert!(profiled.mesh.proxy.is_alive());
        profiled.mesh.service("other", [profiled.server.addr()]);
        assert_eq!(profiled.mesh.get("http://other/").await.status, 200);
    }
}
