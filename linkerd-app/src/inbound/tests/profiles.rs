//! Profiles of the services that requests are for.

use super::{TestProxy, in_process};
use crate::testing::{TestEndpoint, TestWire};
use linkerd_profiles::{Profile, ProfileMatch, ProfileRoute};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

const APP: &str = "10.0.0.9:8080";
const WEB: &str = "web.shop.svc.cluster.local:80";
const TIMEOUT: Duration = Duration::from_millis(500);

fn profile() -> Profile {
    let mut books = ProfileRoute::new(ProfileMatch::EVERY);
    books.labels.insert("route".into(), "books".into());
    Profile {
        logical: Some(WEB.parse().unwrap()),
        opaque: false,
        targets: Vec::new(),
        endpoint: None,
        routes: vec![Arc::new(books)],
        retry_budget: None,
    }
}

/// The time until the answer to a request for a host.
async fn latency(peer: &mut TestWire, host: &str) -> Duration {
    let sent = Instant::now();
    peer.send(&format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n"))
        .await;
    assert!(peer.head().await.starts_with("HTTP/1.1 200"));
    peer.expect("hello").await;
    sent.elapsed()
}

fn counted(proxy: &TestProxy) -> f64 {
    let labels = ["direction=\"inbound\"", "rt_route=\"books\""];
    proxy.metric("route_request_total", &labels)
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_the_first_requests_wait_for_the_timeout_and_no_other() {
    in_process(async |proxy| {
        let _application = TestEndpoint::answering(&proxy.network, APP, "hello");
        let mut peer = proxy.wire(APP);
        assert_eq!(
            latency(&mut peer, "web.shop.svc.cluster.local").await,
            TIMEOUT
        );
        for host in [
            "web.shop.svc.cluster.local",
            "WEB.shop.svc.cluster.local:80",
        ] {
            assert_eq!(latency(&mut peer, host).await, Duration::ZERO, "{host}");
        }
        assert_eq!(counted(&proxy), 0.0);
        // A profile is used as soon as it comes.
        proxy.profiles.set(WEB, profile());
        proxy.settle().await;
        latency(&mut peer, "web.shop.svc.cluster.local").await;
        assert_eq!(counted(&proxy), 1.0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_no_longer_than_for_the_answer() {
    in_process(async |proxy| {
        let _application = TestEndpoint::answering(&proxy.network, APP, "hello");
        let mut peer = proxy.wire(APP);
        let wait = Duration::from_millis(100);
        let answer = async {
            tokio::time::sleep(wait).await;
            proxy.profiles.set(WEB, profile());
        };
        let request = latency(&mut peer, "web.shop.svc.cluster.local");
        let (took, ()) = tokio::join!(request, answer);
        assert_eq!((took, counted(&proxy)), (wait, 1.0));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn names_of_no_service_are_not_asked_for() {
    in_process(async |proxy| {
        let _application = TestEndpoint::answering(&proxy.network, APP, "hello");
        let mut peer = proxy.wire(APP);
        for host in ["web.example", "10.0.0.9", "[2001:db8::1]:80"] {
            assert_eq!(latency(&mut peer, host).await, Duration::ZERO, "{host}");
        }
        assert_eq!(proxy.ctx.profiles.inspect()["in_use"], 0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_service_that_no_connection_uses_leaves() {
    in_process(async |proxy| {
        let _application = TestEndpoint::answering(&proxy.network, APP, "hello");
        proxy.profiles.set(WEB, profile());
        let mut peer = proxy.wire(APP);
        latency(&mut peer, "web.shop.svc.cluster.local").await;
        assert_eq!(proxy.ctx.profiles.inspect()["in_use"], 1);
        peer.finish().await;
        peer.rest().await;
        let swept = tokio::time::timeout(Duration::from_secs(20), proxy.ctx.profiles.sweep());
        assert!(swept.await.is_err());
        assert_eq!(proxy.ctx.profiles.inspect()["in_use"], 0);
    })
    .await;
}
