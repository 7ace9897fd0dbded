//! The admin server of the command `control`.

use crate::control_process::Control;
use http::Method;
use linkerd_tests::{SOON, eventually};
use std::time::{SystemTime, UNIX_EPOCH};

#[tokio::test]
async fn the_controller_shows_its_health_and_its_figures() {
    let files = tempfile::tempdir().unwrap();
    let options = [
        "--admin-listen",
        "127.0.0.1:0",
        "--write-trust-anchor",
        "@anchor.pem",
        "--insecure-any-identity",
    ];
    let mut control = Control::begin_beyond_loopback(files, &options);
    let admin = control.admin().await;
    control.listening().await;
    let ready = async || (admin.get("/ready").await.status == 200).then_some(());
    eventually(SOON, "the controller is ready", ready).await;
    assert_eq!(admin.get("/live").await.text(), "live\n");
    assert!(admin.get("/").await.text().contains("/metrics"));
    assert_eq!(admin.get("/state").await.status, 404);
    let posted = admin.request(Method::POST, "/metrics", "").await;
    assert_eq!(posted.status, 405);

    let before = admin.metrics().await;
    let expires = before.sum("controller_authority_expiration_timestamp_seconds", &[]);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let left = expires - now.as_secs_f64();
    assert!((364.0 * 86400.0..366.0 * 86400.0).contains(&left), "{left}");
    assert_eq!(before.sum("controller_open_streams", &[]), 0.0);
    assert_eq!(before.sum("controller_mesh_file_refused", &[]), 0.0);

    let proxy = control.proxy("web", "anchor.pem").start().await;
    let impostor = control.proxy("control", "anchor.pem").start_unready().await;
    let seen = async || {
        let metrics = admin.metrics().await;
        let value = |name: &str, label: (&str, &str)| metrics.sum(name, &[label]);
        let counted = value("controller_certificates_total", ("outcome", "issued")) == 1.0
            && value("controller_certificates_total", ("outcome", "refused_name")) >= 1.0
            && value("controller_open_streams", ("kind", "inbound_policy")) >= 1.0
            && metrics.sum("controller_connections", &[]) >= 1.0;
        counted.then_some(())
    };
    eventually(SOON, "proxies are counted", seen).await;
    drop((proxy, impostor));

    let loads = async |outcome: &str| {
        let metrics = admin.metrics().await;
        let loads = metrics.sum("controller_mesh_file_loads_total", &[("outcome", outcome)]);
        (loads, metrics.sum("controller_mesh_file_refused", &[]))
    };
    assert_eq!(loads("applied").await, (1.0, 0.0));
    control.write("mesh.yaml", "service: []\n");
    let refused = async || (loads("refused").await == (1.0, 1.0)).then_some(());
    eventually(SOON, "the refused edit is counted", refused).await;
    control.write("mesh.yaml", "services: []\n");
    let applied = async || (loads("applied").await == (2.0, 0.0)).then_some(());
    eventually(SOON, "the good edit is counted", applied).await;
}

/// A controller that waits for addresses is alive, and not ready.
#[tokio::test]
async fn a_controller_that_waits_for_addresses_is_alive_and_not_ready() {
    let files = tempfile::tempdir().unwrap();
    let mesh = "services: [{name: web, port: 80, endpoints: ['nowhere.invalid:80']}]\n";
    let options = ["--admin-listen", "127.0.0.1:0", "--listen", "127.0.0.1:0"];
    let mut control = Control::begin(files, mesh, &options);
    let admin = control.admin().await;
    let waits = async || {
        let reply = admin.get("/ready").await;
        let waits = reply.status == 503 && reply.text().contains("no addresses yet");
        waits.then_some(())
    };
    eventually(SOON, "it waits", waits).await;
    assert_eq!(admin.get("/live").await.status, 200);
}
