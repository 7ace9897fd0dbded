//! Endpoints that look slow because they answer that they are overloaded.

use crate::{Endpoint, get, mesh};
use linkerd_control::Policy;
use std::time::Duration;

/// The number of requests to the second of two endpoints, which answers with `status`, out of 100. The first takes `latency`.
async fn share(
    policy: Policy,
    latency: Duration,
    (status, hint): (u16, Option<&'static str>),
) -> usize {
    let (good, bad) = (Endpoint::start(200).await, Endpoint::start(status).await);
    if let Some(hint) = hint {
        bad.answers_with_hint(status, hint);
    }
    good.server.set_latency(latency);
    let mesh = mesh(policy, &[&good, &bad]).await;
    for _ in 0..100 {
        get(&mesh).await;
    }
    let state = bad.state(&mesh).await;
    assert_eq!(state["state"], "ready", "a penalty ejects nobody");
    bad.server.requests()
}

#[tokio::test]
async fn an_overloaded_endpoint_gets_less() {
    let minute = Duration::from_secs(60);
    let penalties = || Policy::balance("web", 80).penalties(Duration::from_secs(5), minute);
    for answer in [(429, None), (503, Some("30")), (500, None)] {
        let requests = share(penalties(), Duration::ZERO, answer).await;
        assert!((1..=3).contains(&requests), "{answer:?}: {requests}");
    }
    // Without a penalty, the faster one gets nearly all requests. No stall of the machine makes it the slower one.
    let slow = Duration::from_millis(500);
    let requests = share(penalties(), slow, (404, None)).await;
    assert!(requests > 50, "{requests}");
    let requests = share(Policy::balance("web", 80), slow, (429, None)).await;
    assert!(requests > 50, "{requests}");
}
