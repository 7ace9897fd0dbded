//! Replacement of certificates and trust anchors under traffic.

use super::anchors::{each_request_connects, renewed_soon, trusts};
use linkerd_control::Authority;
use linkerd_tests::{Builder, Load, Meshed, Proxy, Server};
use std::{sync::Arc, time::Duration};
use tonic::Status;

const REFRESHES: &str = "control_identity_cert_refreshes_total";

/// Waits until both proxies have this many more certificate refreshes with this result.
async fn refreshed(mesh: &Meshed, result: &str, more: f64) {
    let labels = [("result", result)];
    let wait = async |proxy: &Proxy| {
        let before = proxy.metrics().await.sum(REFRESHES, &labels);
        proxy
            .metric_reaches(REFRESHES, &labels, before + more)
            .await;
    };
    tokio::join!(wait(&mesh.web), wait(&mesh.api));
}

async fn both_trust(mesh: &Meshed, number: usize) {
    tokio::join!(trusts(&mesh.web, number), trusts(&mesh.api, number));
}

/// Replaces the authority under traffic: the old and new anchors overlap, and the identity service fails for a while.
async fn rotate(web: impl FnOnce(Builder) -> Builder) {
    let server = Server::says("hello").await;
    let mesh = Meshed::start_with_anchors_file(web, renewed_soon).await;
    mesh.serve_api(server.addr(), |endpoint| endpoint);
    // A lifetime beyond the test: the proxies renew early, and no renewal is late.
    mesh.controller
        .identity()
        .lifetime(Duration::from_secs(600));
    let load = Load::through(&mesh.web, 3, Duration::from_millis(2), "http://api/");
    load.more(30).await;
    refreshed(&mesh, "ok", 3.0).await;

    let new = Arc::new(Authority::generate("new").unwrap());
    mesh.trust(&[&mesh.authority, &new]);
    both_trust(&mesh, 2).await;
    load.more(30).await;

    let identity = mesh.controller.identity();
    identity.fail(Status::unavailable("away"));
    refreshed(&mesh, "error", 3.0).await;
    load.more(30).await;
    identity.restore();

    mesh.sign_with(&new);
    refreshed(&mesh, "ok", 2.0).await;
    load.more(30).await;

    mesh.trust(&[&new]);
    both_trust(&mesh, 1).await;
    refreshed(&mesh, "ok", 2.0).await;
    load.more(30).await;
    load.stop().await.assert_clean();
    for proxy in [&mesh.web, &mesh.api] {
        let state = proxy.admin.state().await;
        let anchors = &state["identity"]["trust_anchors"];
        assert_eq!(anchors["trust_own_certificate"], true, "{state}");
    }
}

#[tokio::test]
async fn no_request_fails_over_connections_that_stay() {
    rotate(renewed_soon).await;
}

#[tokio::test]
async fn no_request_fails_over_connections_of_their_own() {
    rotate(each_request_connects).await;
}
