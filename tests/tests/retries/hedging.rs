//! Hedging: a request that takes long is sent once more, to another endpoint.

use crate::{NEVER, policy, retried};
use bytes::Bytes;
use futures::stream;
use http::{Method, Request, Response};
use hyper::body::Frame;
use linkerd_control::{Profile, ProfileMatch, ProfileRoute, RouteRule, RouteTimeouts};
use linkerd_tests::{Mesh, SOON, Server, body, chunks, eventually, from_channel, request, soon};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::sync::mpsc;

const NAME: &str = "web.default.svc.cluster.local";

/// A service of two servers, with a percentile for hedging.
struct Hedged {
    mesh: Mesh,
    servers: [Server; 2],
    /// Number of next requests that get no response.
    hang: Arc<AtomicUsize>,
}

impl Hedged {
    async fn start(percentile: Option<&str>) -> Self {
        let hang = Arc::<AtomicUsize>::default();
        let server = || {
            let hang = hang.clone();
            Server::start(move |_: Request<_>| {
                let left = hang.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
                async move {
                    if left.is_ok() {
                        tokio::time::sleep(NEVER).await;
                    }
                    Ok(Response::new(body("answered")))
                }
            })
        };
        let servers = [server().await, server().await];
        // A long minimum delay: a busy machine causes no hedges.
        let min_delay = ("LINKERD_PROXY_OUTBOUND_HEDGE_MIN_DELAY", "300ms");
        let builder = Mesh::builder().env(min_delay.0, min_delay.1);
        let mesh = match percentile {
            Some(percentile) => builder.env("LINKERD_PROXY_OUTBOUND_HEDGE_PERCENTILE", percentile),
            None => builder,
        };
        let mesh = mesh.start().await;
        mesh.service("web", servers.iter().map(Server::addr));
        mesh.controller
            .policy(format!("{NAME}:80"))
            .set(policy(RouteRule::new()));
        Self {
            mesh,
            servers,
            hang,
        }
    }

    /// Sends enough requests for an estimate of the latency, and then one that its first server does not answer.
    async fn get_slow(&self, name: &str) -> u16 {
        self.answered(name).await;
        self.hang.store(1, SeqCst);
        let reply = self.mesh.get(&format!("http://{name}/")).await;
        reply.status.as_u16()
    }

    /// Sends enough requests for an estimate of the latency.
    async fn answered(&self, name: &str) {
        for _ in 0..40 {
            let reply = self.mesh.get(&format!("http://{name}/")).await;
            assert_eq!(reply.status, 200);
        }
    }

    /// Sets a request timeout, which ends unanswered requests.
    fn limit(&self) {
        let timeouts = RouteTimeouts::new().request(Duration::from_secs(2));
        let rule = RouteRule::new().timeouts(timeouts);
        self.mesh.policy("web").set(policy(rule));
    }

    /// Reasons for requests without a hedge, each reason once.
    async fn skipped(&self) -> Vec<String> {
        let metrics = self.mesh.proxy.metrics().await;
        let name = "outbound_http_route_hedge_skipped_total";
        let samples = metrics.samples().filter(|(sample, _)| *sample == name);
        let reason = |labels: &[(String, String)]| {
            let reason = labels.iter().find(|(label, _)| label == "reason");
            reason.unwrap().1.clone()
        };
        samples.map(|(_, labels)| reason(labels)).collect()
    }

    /// The value of a counter of hedges.
    async fn counter(&self, name: &str) -> f64 {
        let name = format!("outbound_http_route_hedge_{name}_total");
        self.mesh.proxy.metrics().await.sum(&name, &[])
    }
}

#[tokio::test]
async fn a_request_that_hangs_is_answered_by_another_endpoint() {
    let web = Hedged::start(Some("50")).await;
    let timeouts = RouteTimeouts::new().request(Duration::from_secs(30));
    let profile = Profile::new(NAME).route(ProfileRoute::new(ProfileMatch::path("/.*")));
    for name in ["plain", "web", NAME] {
        match name {
            "plain" => {
                let endpoints = web.servers.iter().map(Server::addr);
                web.mesh.service("plain", endpoints);
            }
            "web" => {
                let rule = retried().timeouts(timeouts);
                web.mesh.policy("web").set(policy(rule));
            }
            _ => {
                web.mesh
                    .controller
                    .profile(format!("{NAME}:80"))
                    .set(profile.clone());
            }
        }
        let before = (
            web.counter("requests").await,
            web.counter("successes").await,
        );
        assert_eq!(web.get_slow(name).await, 200, "{name}");
        assert_eq!(web.counter("requests").await - before.0, 1.0, "{name}");
        assert_eq!(web.counter("successes").await - before.1, 1.0, "{name}");
    }
    let state = web.mesh.proxy.admin.state().await.to_string();
    assert!(state.contains("hedged_after_ms"), "{state}");
}

#[tokio::test]
async fn a_body_that_was_read_is_sent_again() {
    let web = Hedged::start(Some("50")).await;
    assert_eq!(web.get_slow("web").await, 200);
    web.hang.store(1, SeqCst);
    let put = request(Method::PUT, "http://web/", body("hello"));
    let mut client = web.mesh.http1().await;
    assert_eq!(client.send(put).await.unwrap().status, 200);
    assert_eq!(web.counter("requests").await, 2.0);
}

#[tokio::test]
async fn a_post_is_not_sent_again() {
    let web = Hedged::start(Some("50")).await;
    web.limit();
    web.answered("web").await;
    web.hang.store(1, SeqCst);
    let post = request(Method::POST, "http://web/", body("hello"));
    let mut client = web.mesh.http1().await;
    assert_eq!(client.send(post).await.unwrap().status, 504);
    assert_eq!(web.counter("requests").await, 0.0);
}

#[tokio::test]
async fn a_body_that_is_larger_than_what_is_kept_is_not_sent_again() {
    let web = Hedged::start(Some("50")).await;
    web.limit();
    web.answered("web").await;
    web.hang.store(1, SeqCst);
    // The body has no `content-length`.
    let piece = || Ok(Frame::data(Bytes::from_static(&[b'x'; 16 * 1024])));
    let large = chunks(stream::iter((0..8).map(move |_| piece())));
    let put = request(Method::PUT, "http://web/", large);
    let mut client = web.mesh.http1().await;
    assert_eq!(client.send(put).await.unwrap().status, 504);
    assert_eq!(web.skipped().await, ["body_too_large"]);
    assert_eq!(web.counter("requests").await, 0.0);
}

#[tokio::test]
async fn a_body_that_is_still_being_read_is_not_sent_again() {
    let web = Hedged::start(Some("50")).await;
    web.limit();
    web.answered("web").await;
    web.hang.store(1, SeqCst);
    let (more, texts) = mpsc::channel(1);
    more.send("a").await.unwrap();
    let put = request(Method::PUT, "http://web/", from_channel(texts));
    let mut client = web.mesh.http1().await;
    let answer = tokio::spawn(async move { client.send(put).await });
    let skipped = eventually(SOON, "the hedge is not made", || async {
        Some(web.skipped().await).filter(|reasons| !reasons.is_empty())
    });
    assert_eq!(skipped.await, ["request_unfinished"]);
    // The limit runs from the end of the body.
    drop(more);
    assert_eq!(soon(answer).await.unwrap().unwrap().status, 504);
    assert_eq!(web.counter("requests").await, 0.0);
}

#[tokio::test]
async fn without_a_percentile_nothing_is_hedged() {
    let web = Hedged::start(None).await;
    web.limit();
    assert_eq!(web.get_slow("web").await, 504);
    assert_eq!(web.counter("requests").await, 0.0);
}
