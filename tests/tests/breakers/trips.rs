//! The rules that eject an endpoint.

use crate::{Endpoint, LONG, get, mesh, policy, statuses};
use linkerd_control::{Breaker, Policy};

/// A breaker whose ejections outlast the test.
fn long(breaker: Breaker) -> Policy {
    policy(breaker.backoff(LONG, LONG))
}

#[tokio::test]
async fn failures_in_a_row_eject_and_a_request_that_finds_all_ejected_says_so() {
    let endpoint = Endpoint::start(500).await;
    let mesh = mesh(long(Breaker::consecutive(3)), &[&endpoint]).await;
    assert_eq!(statuses(&mesh, 3).await, [500; 3]);
    let line = mesh.proxy.wait_for_log("breaker opened").await;
    assert!(line.contains("3 failures in a row"), "{line}");
    // Before any other request comes.
    let endpoints = "outbound_http_balancer_endpoints";
    let pending: &[_] = &[("endpoint_state", "pending")];
    mesh.proxy.metric_reaches(endpoints, pending, 1.0).await;
    let ready: &[_] = &[("endpoint_state", "ready")];
    let metrics = mesh.proxy.metrics().await;
    assert_eq!(metrics.sum(endpoints, ready), 0.0);
    let state = mesh.proxy.admin.state().await;
    let backend = &state["workers"][0]["outbound"]["targets"][0]["http"][0]["backends"][0];
    assert_eq!(backend["balancer"]["ready"], 0, "{backend}");

    let reply = get(&mesh).await;
    assert_eq!(reply.status, 504);
    let details = reply.header("proxy-status").unwrap();
    assert!(details.contains("failfast_ejected"), "{details}");
    let reply = get(&mesh).await;
    assert_eq!(reply.status, 503);
    let details = reply.header("proxy-status").unwrap();
    assert!(details.contains("unavailable_ejected"), "{details}");
    assert_eq!(endpoint.server.requests(), 3);
    for (reason, count) in [("failfast_ejected", 1.0), ("unavailable_ejected", 1.0)] {
        let labels: &[_] = &[("reason", reason)];
        mesh.proxy
            .metric_reaches("proxy_failures_total", labels, count)
            .await;
    }
    let state = endpoint.state(&mesh).await;
    assert_eq!(state["state"], "ejected");
    assert_eq!(state["breaker"]["state"], "open");
    assert_eq!(state["breaker"]["cause"], "3 failures in a row");
    assert!(state["breaker"]["probe_in_ms"].as_u64().unwrap() > 100_000);
}

#[tokio::test]
async fn other_endpoints_take_the_requests_of_an_ejected_one() {
    let (good, bad) = (Endpoint::start(200).await, Endpoint::start(503).await);
    let mesh = mesh(long(Breaker::consecutive(2)), &[&good, &bad]).await;
    while bad.server.requests() < 2 {
        get(&mesh).await;
    }
    assert_eq!(statuses(&mesh, 30).await, [200; 30]);
    assert_eq!(bad.server.requests(), 2);
    assert_eq!(good.state(&mesh).await["breaker"]["state"], "closed");
}

#[tokio::test]
async fn a_success_and_a_limited_request_end_a_row_of_failures() {
    let endpoint = Endpoint::start(500).await;
    let mesh = mesh(long(Breaker::consecutive(3)), &[&endpoint]).await;
    for between in [200, 404, 429] {
        endpoint.answers(500);
        assert_eq!(statuses(&mesh, 2).await, [500; 2]);
        endpoint.answers(between);
        assert_eq!(statuses(&mesh, 1).await, [between]);
    }
    endpoint.answers(502);
    assert_eq!(statuses(&mesh, 4).await, [502, 502, 502, 504]);
}

#[tokio::test]
async fn a_low_success_rate_ejects_when_there_are_enough_requests() {
    let endpoint = Endpoint::start(200).await;
    let breaker = Breaker::success_rate(0.7, 6).decay(LONG);
    let mesh = mesh(long(breaker), &[&endpoint]).await;
    assert_eq!(statuses(&mesh, 4).await, [200; 4]);
    endpoint.answers(500);
    assert_eq!(statuses(&mesh, 2).await, [500; 2], "4 of 6 are below 70 %");
    assert_eq!(statuses(&mesh, 1).await, [504]);
    let state = endpoint.state(&mesh).await;
    assert_eq!(state["breaker"]["cause"], "4 successes of 6");
}

#[tokio::test]
async fn limited_requests_lower_the_success_rate() {
    let endpoint = Endpoint::start(429).await;
    let breaker = Breaker::success_rate(0.5, 4).decay(LONG);
    let mesh = mesh(long(breaker), &[&endpoint]).await;
    assert_eq!(statuses(&mesh, 5).await, [429, 429, 429, 429, 504]);
}

#[tokio::test]
async fn failures_in_a_row_eject_beside_a_success_rate() {
    let endpoint = Endpoint::start(200).await;
    let breaker = Breaker::success_rate(0.5, 1000).or_consecutive(2);
    let mesh = mesh(long(breaker), &[&endpoint]).await;
    assert_eq!(statuses(&mesh, 10).await, [200; 10]);
    endpoint.answers(500);
    assert_eq!(statuses(&mesh, 3).await, [500, 500, 504]);
}

#[tokio::test]
async fn an_endpoint_that_drops_connections_is_ejected() {
    let server = linkerd_tests::Server::start(|_| async { Err(linkerd_tests::Fail::Close) }).await;
    let mesh = crate::mesh(long(Breaker::consecutive(2)), &[]).await;
    mesh.endpoints("web")
        .set(linkerd_control::EndpointSet::new([server.addr()]));
    linkerd_tests::eventually(linkerd_tests::SOON, "it is ejected", || async {
        let details = get(&mesh).await;
        let details = details.header("proxy-status")?;
        details.contains("_ejected").then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_endpoints_hint_is_the_length_of_its_first_ejection_if_it_is_respected() {
    let endpoint = Endpoint::start(503).await;
    endpoint.answers_with_hint(503, "100");
    let breaker = Breaker::consecutive(1).backoff(std::time::Duration::from_millis(10), LONG);
    let mesh = mesh(policy(breaker.respect_retry_after()), &[&endpoint]).await;
    assert_eq!(statuses(&mesh, 2).await, [503, 504]);
    let state = endpoint.state(&mesh).await;
    let left = state["breaker"]["probe_in_ms"].as_u64().unwrap();
    assert!((50_000..=100_000).contains(&left), "{state}");

    // Without respect for the hint, the endpoint is probed, and ejected for longer.
    mesh.policy("web").set(policy(breaker));
    linkerd_tests::eventually(linkerd_tests::SOON, "it is probed", || async {
        get(&mesh).await;
        let probes = endpoint.state(&mesh).await["breaker"]["failed_probes"].as_u64();
        (probes > Some(0)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_policy_that_takes_its_breaker_back_brings_the_endpoint_back() {
    let endpoint = Endpoint::start(500).await;
    let mesh = mesh(long(Breaker::consecutive(1)), &[&endpoint]).await;
    assert_eq!(statuses(&mesh, 2).await, [500, 504]);
    mesh.policy("web").set(Policy::balance("web", 80));
    linkerd_tests::eventually(linkerd_tests::SOON, "it is asked again", || async {
        (get(&mesh).await.status == 500).then_some(())
    })
    .await;
    assert_eq!(statuses(&mesh, 10).await, [500; 10]);
}

#[tokio::test]
async fn an_impossible_breaker_makes_the_policy_invalid_and_the_log_names_the_field() {
    let endpoint = Endpoint::start(200).await;
    let invalid = policy(Breaker::success_rate(1.5, 1));
    let mesh = mesh(invalid, &[&endpoint]).await;
    assert_eq!(statuses(&mesh, 1).await, [500]);
    mesh.proxy
        .wait_for_log("the success rate of failure accrual (1.5)")
        .await;
}
