//! Targets of profiles, and the header `l5d-dst-canonical` of requests that a profile routes.

use crate::{DST, NAME, Profiled, named, profile};
use linkerd_control::{Policy, Profile, ProfileMatch};
use linkerd_tests::{Load, Mesh, Server};
use std::time::Duration;

fn of(name: &str) -> String {
    format!("{name}.default.svc.cluster.local:80")
}

#[tokio::test]
async fn targets_share_the_requests_of_all_routes_by_their_weights() {
    let (a, b) = (Server::says("a").await, Server::says("b").await);
    let split = profile([named("path", ProfileMatch::path("/path"))])
        .target(of("a"), 1)
        .target(of("b"), 4)
        .target(of("never"), 0);
    let profiled = Profiled::start(split).await;
    profiled.mesh.service("a", [a.addr()]);
    profiled.mesh.service("b", [b.addr()]);
    for path in ["/path", "/other"] {
        let uri = format!("http://{NAME}{path}");
        let load = Load::http1(&profiled.mesh, 4, Duration::ZERO, &uri);
        load.more(600).await;
        let report = load.stop().await;
        report.assert_clean();
        assert!((0.7..0.9).contains(&report.share("b")), "{path} {report:?}");
    }
    let metrics = profiled.mesh.proxy.metrics().await;
    let [some, all] = [&[("rt_route", "path")][..], &[("dst", DST)]]
        .map(|labels| metrics.sum("route_request_total", labels));
    assert!(some >= 600.0 && all >= some + 600.0, "{some} of {all}");
    assert_eq!(profiled.server.requests(), 0);
}

#[tokio::test]
async fn requests_that_a_profile_routes_name_the_service() {
    let profiled = Profiled::with([named("path", ProfileMatch::path("/path"))]).await;
    let canonical = async |headers: &[_]| {
        profiled.send("GET", "/path", headers).await;
        let seen = profiled.server.last();
        let value = seen.headers.get("l5d-dst-canonical");
        value.map(|value| value.to_str().unwrap().to_owned())
    };
    assert_eq!(canonical(&[]).await.as_deref(), Some(DST));
    let claimed = [("l5d-dst-canonical", "other:80")];
    assert_eq!(canonical(&claimed).await.as_deref(), Some(DST));
    profiled.get("/other").await;
    assert_eq!(profiled.server.last().headers["l5d-dst-canonical"], DST);
    // A policy adds no such header.
    profiled.mesh.get("http://web/path").await;
    let seen = profiled.server.last();
    assert!(!seen.headers.contains_key("l5d-dst-canonical"));
}

#[tokio::test]
async fn a_profile_counts_for_names_and_networks_that_are_asked_for() {
    let addr = "10.1.2.3:80";
    for (networks, is_asked) in [("10.1.0.0/16", true), ("10.2.0.0/16", false)] {
        let builder = Mesh::builder().env("LINKERD2_PROXY_DESTINATION_PROFILE_NETWORKS", networks);
        let routes = || profile([named("path", ProfileMatch::path("/.*"))]);
        let profiled = Profiled::build(builder, routes()).await;
        let controller = &profiled.mesh.controller;
        for target in [addr, "web:80"] {
            controller.policy(target).set(Policy::balance("web", 80));
            controller.profile(target).set(routes());
        }
        assert_eq!(
            profiled.mesh.get(&format!("http://{addr}/")).await.status,
            200
        );
        let expected = if is_asked { 1.0 } else { 0.0 };
        assert_eq!(profiled.requests("path").await, expected, "{networks}");
        // The name `web` has not the suffix: the proxy looks up no profile.
        assert_eq!(profiled.mesh.get("http://web/").await.status, 200);
        assert_eq!(profiled.requests("path").await, expected, "{networks}");
        profiled.get("/").await;
        assert_eq!(profiled.requests("path").await, expected + 1.0);
    }
}

#[tokio::test]
async fn without_a_name_the_policy_routes() {
    let nameless = Profile::new("").route(named("path", ProfileMatch::path("/.*")));
    let profiled = Profiled::start(nameless.target(of("other"), 1)).await;
    assert_eq!(profiled.get("/").await.status, 200);
    assert_eq!(profiled.server.requests(), 1);
    assert_eq!(profiled.requests("path").await, 0.0);
}
