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
async fn without_endpoints_the_first_request_waits_and_later_ones_fail_at_once_until_some_come() {
    let server = Server::says("hello").await;
    let mesh = impatient().start().await;
    let web = mesh.service("web", []);
    web.no_endpoints(true);
    let start = Instant::now();
    let first = mesh.get("http://web/").await;
    assert!(start.elapsed() >= Duration::from_millis(300));
    assert_fails(&first, 504, "service in fail-fast", "failfast_no_endpoints");
    let start = Instant::now();
    let second = mesh.get("http://web/").await;
    assert!(
        start.elapsed() < Duration::from_millis(250),
        "{:?}",
        start.elapsed()
    );
    assert_fails(
        &second,
        503,
        "service unavailable",
        "unavailable_no_endpoints",
    );

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
async fn a_request_that_waits_is_served_when_an_endpoint_comes() {
    let server = Server::says("hello").await;
    let mesh = Mesh::start().await;
    let web = mesh.service("web", []);
    web.no_endpoints(true);
    let reply = tokio::spawn(mesh.get("http://web/"));
    web.expect_lookup(SOON).await.unwrap();
    web.add([server.addr()]);
    assert_eq!(reply.await.unwrap().text(), "hello");
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
