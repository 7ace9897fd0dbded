//! Missing endpoints, missing answers, late answers.

use linkerd_tests::{Mesh, MeshBuilder, Reply, SOON, Server, eventually};
use std::time::{Duration, Instant};

fn impatient() -> MeshBuilder {
    Mesh::builder().env("LINKERD2_PROXY_OUTBOUND_HTTP_FAILFAST_TIMEOUT", "300ms")
}

fn assert_fails(reply: &Reply, status: u16, text: &str, label: &str) {
    let error = reply.header("l5d-proxy-error").unwrap_or_default();
    assert_eq!(reply.status, status, "{reply:?}");
    assert!(error.ends_with(text), "{reply:?}");
    let status = reply.header("proxy-status").unwrap_or_default();
    assert!(
        status.contains(&format!("details=\"{label}\"")),
        "{reply:?}"
    );
}

#[tokio::test]
async fn without_endpoints_requests_fail_at_once_until_some_come() {
    let server = Server::says("hello").await;
    let mesh = Mesh::start().await;
    let web = mesh.service("web", []);
    web.no_endpoints(true);
    for (status, text, label) in [
        (504, "service in fail-fast", "failfast_no_endpoints"),
        (503, "service unavailable", "unavailable_no_endpoints"),
    ] {
        let start = Instant::now();
        let reply = mesh.get("http://web/").await;
        // The failfast timeout is 3 s.
        let elapsed = start.elapsed();
        assert!(elapsed < Duration::from_secs(2), "{elapsed:?}");
        assert_fails(&reply, status, text, label);
    }
    mesh.proxy.wait_for_log("cause=NoEndpoints").await;

    web.add([server.addr()]);
    eventually(SOON, "it recovers", || async {
        (mesh.get("http://web/").await.status == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_service_that_does_not_exist_fails_as_one_without_endpoints() {
    let mesh = impatient().start().await;
    mesh.service("web", []).no_endpoints(false);
    let reply = mesh.get("http://web/").await;
    assert_fails(&reply, 504, "service in fail-fast", "failfast_no_endpoints");
}

#[tokio::test]
async fn a_request_for_endpoints_that_are_not_known_yet_waits_for_them() {
    let server = Server::says("hello").await;
    let mesh = Mesh::start().await;
    let web = mesh.service("web", [server.addr()]);
    web.delay(Duration::from_millis(500));
    let start = Instant::now();
    let reply = mesh.get("http://web/").await;
    assert!(start.elapsed() >= Duration::from_millis(500));
    assert_eq!(reply.text(), "hello");
}

#[tokio::test]
async fn a_controller_that_says_nothing_of_endpoints_fails_requests_fast() {
    let server = Server::says("hello").await;
    let mesh = impatient().start().await;
    let web = mesh.service("web", [server.addr()]);
    web.silent();
    let reply = mesh.get("http://web/").await;
    assert_fails(&reply, 504, "service in fail-fast", "failfast_not_resolved");
    let reply = mesh.get("http://web/").await;
    assert_fails(
        &reply,
        503,
        "service unavailable",
        "unavailable_not_resolved",
    );
    web.restore();
    eventually(SOON, "it recovers", || async {
        (mesh.get("http://web/").await.status == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_slow_controller_delays_the_first_request_only() {
    let server = Server::says("hello").await;
    let mesh = Mesh::start().await;
    let web = mesh.service("web", [server.addr()]);
    web.delay(Duration::from_millis(300));
    mesh.policy("web").delay(Duration::from_millis(300));
    let start = Instant::now();
    assert_eq!(mesh.get("http://web/").await.text(), "hello");
    assert!(start.elapsed() >= Duration::from_millis(600));
    let start = Instant::now();
    assert_eq!(mesh.get("http://web/").await.text(), "hello");
    assert!(start.elapsed() < Duration::from_millis(300));
}

#[tokio::test]
async fn one_silent_target_does_not_hold_up_others() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    mesh.policy("stuck").silent();
    let stuck = tokio::spawn(mesh.get("http://stuck/"));
    mesh.policy("stuck").expect_lookup(SOON).await.unwrap();
    for _ in 0..5 {
        assert_eq!(mesh.get("http://web/").await.text(), "hello");
    }
    stuck.abort();
}

#[tokio::test]
async fn a_proxy_that_starts_before_its_controller_serves_when_it_comes() {
    let server = Server::says("hello").await;
    let mut mesh = Mesh::start().await;
    mesh.service("web", [server.addr()]);
    mesh.kill_control().await;
    let reply = tokio::spawn(mesh.get("http://web/"));
    mesh.proxy
        .metric_reaches(
            "tcp_open_connections",
            &[("direction", "outbound"), ("peer", "src")],
            1.0,
        )
        .await;
    mesh.restart_control().await;
    assert_eq!(reply.await.unwrap().text(), "hello");
}
