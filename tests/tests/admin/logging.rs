//! Log lines with fast, slow and missing readers.

use http::Method;
use linkerd_tests::{Mesh, Server};
use std::time::Duration;

#[tokio::test]
async fn a_log_that_nobody_reads_stops_nothing() {
    let server = Server::says("hello").await;
    let mut mesh = Mesh::with(&server).await;
    let admin = mesh.proxy.admin;
    mesh.proxy.pause_log(true);
    fill_the_log(&mesh, 100).await;
    assert_eq!(mesh.get("http://web/").await.text(), "hello");
    assert_eq!(admin.get("/ready").await.text(), "ready\n");
    let metrics = mesh.proxy.metrics().await;
    assert!(metrics.sum("proxy_log_lines_dropped_total", &[]) >= 100.0);

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
    fill_the_log(&mesh, 1).await;
    mesh.proxy.terminate();
    let status = mesh.proxy.wait_exit(Duration::from_secs(5)).await;
    assert_eq!(status.code(), Some(0));
}

/// Makes the proxy log until it has dropped some lines: a pipe and the queue hold a few hundred kilobytes.
async fn fill_the_log(mesh: &Mesh, lines: u64) {
    let admin = mesh.proxy.admin;
    let loud = admin
        .request(Method::PUT, "/proxy-log-level", "linkerd=debug")
        .await;
    assert_eq!(loud.status, 204);
    for n in 0..100 {
        // Each failure is a line.
        for _ in 0..100 {
            assert_eq!(mesh.get("http://nowhere/").await.status, 502);
        }
        let state = admin.state().await;
        let dropped = state["log"]["dropped_lines"].as_u64();
        if dropped.unwrap() >= lines {
            return;
        }
        assert!(n < 99, "{:#}", state["log"]);
    }
}
