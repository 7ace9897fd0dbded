//! The return of an ejected endpoint.

use crate::{Endpoint, LONG, get, mesh, policy, statuses};
use linkerd_control::Breaker;
use linkerd_tests::{SOON, eventually};
use std::time::Duration;

/// Ejects after the first failure, for so short a time that the next request waits for its end.
fn short(longest: Duration) -> Breaker {
    Breaker::consecutive(1).backoff(Duration::from_millis(20), longest)
}

#[tokio::test]
async fn a_successful_probe_closes_the_breaker() {
    let endpoint = Endpoint::start(500).await;
    let mesh = mesh(policy(short(LONG)), &[&endpoint]).await;
    assert_eq!(statuses(&mesh, 1).await, [500]);
    endpoint.answers(200);
    // The first request waits for the end of the ejection.
    assert_eq!(statuses(&mesh, 10).await, [200; 10]);
    let line = mesh.proxy.wait_for_log("breaker closed").await;
    assert!(line.contains("the probe succeeded"), "{line}");
    assert_eq!(endpoint.state(&mesh).await["breaker"]["state"], "closed");
}

#[tokio::test]
async fn a_failed_probe_ejects_for_longer() {
    let endpoint = Endpoint::start(500).await;
    let mesh = mesh(policy(short(LONG)), &[&endpoint]).await;
    eventually(SOON, "probes fail", || async {
        get(&mesh).await;
        (endpoint.server.requests() >= 4).then_some(())
    })
    .await;
    let state = endpoint.state(&mesh).await;
    assert!(
        state["breaker"]["failed_probes"].as_u64() >= Some(3),
        "{state}"
    );
    mesh.proxy.wait_for_log("the probe failed").await;
}

#[tokio::test]
async fn a_limited_probe_closes_a_breaker_of_failures_and_not_a_unified_one() {
    for (breaker, closes) in [
        (Breaker::consecutive(1), true),
        (Breaker::success_rate(0.5, 1_000).or_consecutive(1), false),
    ] {
        let endpoint = Endpoint::start(500).await;
        let breaker = breaker.backoff(Duration::from_millis(20), LONG);
        let mesh = mesh(policy(breaker), &[&endpoint]).await;
        assert_eq!(statuses(&mesh, 1).await, [500]);
        endpoint.answers(429);
        assert_eq!(statuses(&mesh, 1).await, [429]);
        let state = endpoint.state(&mesh).await;
        let name = state["breaker"]["state"].as_str().unwrap();
        assert_eq!(name == "closed", closes, "{state}");
    }
}

#[tokio::test]
async fn there_is_one_probe_and_the_others_wait_for_its_outcome() {
    let endpoint = Endpoint::start(500).await;
    let mesh = mesh(policy(short(LONG)), &[&endpoint]).await;
    assert_eq!(statuses(&mesh, 1).await, [500]);
    endpoint.answers(200);
    endpoint.server.set_latency(Duration::from_secs(3_600));
    let clients = (0..8).map(|_| tokio::spawn(mesh.get("http://web/")));
    let clients: Vec<_> = clients.collect();
    eventually(SOON, "the probe is on its way", || async {
        (endpoint.server.in_flight() == 1).then_some(())
    })
    .await;
    assert_eq!(endpoint.state(&mesh).await["breaker"]["state"], "probing");
    eventually(SOON, "the others fail", || async {
        let done = clients.iter().filter(|client| client.is_finished()).count();
        (done == 7).then_some(())
    })
    .await;
    assert_eq!(endpoint.server.requests(), 2);

    // The client of the probe goes away: another request becomes the probe.
    clients.iter().for_each(tokio::task::JoinHandle::abort);
    endpoint.server.set_latency(Duration::ZERO);
    eventually(SOON, "another probe succeeds", || async {
        (get(&mesh).await.status == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_response_from_before_the_ejection_does_not_end_it() {
    let endpoint = Endpoint::start(200).await;
    let breaker = Breaker::consecutive(1).backoff(LONG, LONG);
    let mesh = mesh(policy(breaker), &[&endpoint]).await;
    endpoint.server.set_latency(Duration::from_secs(1));
    let early = tokio::spawn(mesh.get("http://web/"));
    eventually(SOON, "it is on its way", || async {
        (endpoint.server.in_flight() == 1).then_some(())
    })
    .await;
    endpoint.server.set_latency(Duration::ZERO);
    endpoint.answers(500);
    assert_eq!(statuses(&mesh, 1).await, [500]);
    early.await.unwrap();
    assert_eq!(endpoint.state(&mesh).await["breaker"]["state"], "open");
}
