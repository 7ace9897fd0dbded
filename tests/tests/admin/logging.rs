//! Log lines, and whoever reads them or not.

use http::Method;
use linkerd_tests::{Mesh, Server};
use std::time::Duration;

#[tokio::test]
async fn a_log_that_nobody_reads_stops_nothing() {
    let server = Server::says("hello").await;
    let mut mesh = Mesh::with(&server).await;
    let admin = mesh.proxy.admin;
    mesh.proxy.pause_log(true);
    let loud = admin
        .request(Method::PUT, "/proxy-log-level", "trace")
        .await;
    assert_eq!(loud.status, 204);
    // A pipe and the queue hold a few hundred kilobytes.
    for _ in 0..10_000 {
        assert_eq!(mesh.get("http://web/").await.text(), "hello");
        assert_eq!(admin.get("/ready").await.text(), "ready\n");
        let state = admin.state().await;
        if state["log"]["dropped_lines"].as_u64() > Some(100) {
            break;
        }
    }
    let dropped = mesh.proxy.metrics().await;
    let dropped = dropped.sum("proxy_log_lines_dropped_total", &[]);
    assert!(dropped > 100.0, "{dropped}");

    admin.request(Method::PUT, "/proxy-log-level", "info").await;
    mesh.proxy.pause_log(false);
    mesh.proxy.wait_for_log("Log lines were lost").await;
    mesh.proxy.terminate();
    let status = mesh.proxy.wait_exit(Duration::from_secs(5)).await;
    assert_eq!(status.code(), Some(0));
    mesh.proxy
        .wait_for_log("Shutdown completed gracefully")
        .await;
}

#[tokio::test]
async fn a_log_that_is_never_read_does_not_keep_the_process() {
    let mut mesh = Mesh::start().await;
    mesh.proxy.pause_log(true);
    let admin = mesh.proxy.admin;
    admin
        .request(Method::PUT, "/proxy-log-level", "trace")
        .await;
    for _ in 0..10_000 {
        admin.get("/live").await;
        if admin.state().await["log"]["dropped_lines"].as_u64() > Some(0) {
            break;
        }
    }
    mesh.proxy.terminate();
    let status = mesh.proxy.wait_exit(Duration::from_secs(5)).await;
    assert_eq!(status.code(), Some(0));
}
