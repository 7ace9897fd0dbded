//! Profiles that change.

use crate::{NAME, Profiled, named, profile, wanted};
use linkerd_control::{Profile, ProfileMatch};
use linkerd_tests::{Load, SOON, Server, eventually, soon};
use std::time::Duration;

fn everything() -> ProfileMatch {
    ProfileMatch::path("/.*")
}

#[tokio::test]
async fn the_next_request_of_a_connection_meets_the_new_routes() {
    let profiled = Profiled::with([named("old", everything())]).await;
    let client = profiled.mesh.http2().await;
    soon(client.send(wanted("GET", "/", &[]))).await.unwrap();
    assert_eq!(profiled.requests("old").await, 1.0);
    profiled
        .profile()
        .set(profile([named("new", everything())]));
    eventually(SOON, "the new route takes requests", || async {
        soon(client.send(wanted("GET", "/", &[]))).await.unwrap();
        (profiled.requests("new").await == 1.0).then_some(())
    })
    .await;
    let old = profiled.requests("old").await;
    soon(client.send(wanted("GET", "/", &[]))).await.unwrap();
    assert_eq!(profiled.requests("new").await, 2.0);
    assert_eq!(profiled.requests("old").await, old);
    // The endpoint's connection outlives its routes.
    assert_eq!(profiled.server.connections(), 1);
    assert!(client.is_open());
}

#[tokio::test]
async fn a_request_in_flight_finishes_on_the_route_that_it_began_with() {
    let profiled = Profiled::with([named("patient", everything())]).await;
    profiled.server.set_latency(Duration::from_secs(1));
    let client = profiled.mesh.http2().await;
    let in_flight = tokio::spawn({
        let client = client.clone();
        async move { client.send(wanted("GET", "/", &[])).await.unwrap() }
    });
    eventually(SOON, "it arrives", || async {
        (profiled.server.in_flight() == 1).then_some(())
    })
    .await;
    let hasty = named("hasty", everything()).timeout(Duration::from_millis(1));
    profiled.profile().set(profile([hasty]));
    eventually(SOON, "the new route applies", || async {
        let reply = profiled.get("/").await;
        (reply.status == 504).then_some(())
    })
    .await;
    assert_eq!(soon(in_flight).await.unwrap().status, 200);
}

#[tokio::test]
async fn changes_under_load_fail_no_request() {
    let (a, b) = (Server::says("a").await, Server::says("b").await);
    let target = |name: &str| format!("{name}.default.svc.cluster.local:80");
    let shapes: [fn() -> Profile; 4] = [
        || profile([named("first", everything()).timeout(SOON)]),
        || profile((0..50).map(|n| named(&format!("r{n}"), ProfileMatch::path(format!("/{n}.*"))))),
        || Profile::new(NAME),
        || profile([named("retried", everything()).retryable()]).retry_budget(0.2, 10, SOON / 2),
    ];
    let profiled = Profiled::start(shapes[0]()).await;
    profiled.mesh.service("a", [a.addr()]);
    profiled.mesh.service("b", [b.addr()]);
    let uri = format!("http://{NAME}/x");
    let load = Load::http1(&profiled.mesh, 4, Duration::from_millis(1), &uri);
    let streams = Load::http2(&profiled.mesh, 2, Duration::from_millis(1), &uri);
    for n in 0..100 {
        let shape = shapes[n % shapes.len()]();
        let split = shape.target(target("a"), 1).target(target("b"), 1);
        profiled.profile().set(split);
        load.more(5).await;
    }
    load.stop().await.assert_clean();
    streams.stop().await.assert_clean();
    assert!(a.requests() > 0 && b.requests() > 0);
}

#[tokio::test]
async fn a_profile_without_routes_leaves_the_policy_in_force() {
    let profiled = Profiled::with([named("route", everything())]).await;
    profiled.get("/").await;
    profiled.profile().set(Profile::new(NAME));
    eventually(SOON, "the policy routes", || async {
        profiled.get("/").await;
        let seen = profiled.server.last();
        (!seen.headers.contains_key("l5d-dst-canonical")).then_some(())
    })
    .await;
}
