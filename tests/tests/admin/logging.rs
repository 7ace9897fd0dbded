//! Log lines with fast, slow and missing readers.

use http::Method;
use linkerd_tests::{Mesh, SOON, Server, Wire, eventually};
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
async fn events_are_streamed_by_a_filter_of_their_reader() {
    let mesh = Mesh::start().await;
    let admin = mesh.proxy.admin;
    let mut wire = Wire::connect(admin.addr).await;
    wire.send("GET /logs.json?filter=linkerd%3Ddebug HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await;
    let head = wire.head().await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(head.contains("content-type: application/json"), "{head}");
    assert_eq!(mesh.get("http://nowhere/").await.status, 502);
    let lines = wire.until(b"unknown_destination").await;
    assert!(lines.contains("\"level\":\"DEBUG\""), "{lines}");
    let state = admin.state().await;
    let streams = &state["log"]["streams"]["open"];
    assert_eq!(streams.as_array().unwrap().len(), 1, "{streams}");
    // The log still has its previous levels.
    assert!(!mesh.proxy.log().contains("unknown_destination"));
    drop(wire);
    eventually(SOON, "the stream is closed", || async {
        let state = admin.state().await;
        let open = state["log"]["streams"]["open"]
            .as_array()
            .unwrap()
            .is_empty();
        open.then_some(())
    })
    .await;

    for (path, status) in [("/logs.json", 400), ("/logs.json?filter=a%3Dloud", 400)] {
        let refused = admin.get(path).await;
        assert_eq!(refused.status, status, "{refused:?}");
        assert!(refused.text().contains("filter"), "{refused:?}");
    }
}

/// Requests like those of the incumbent's clients: the filter is the whole query, or the body of a QUERY.
#[tokio::test]
async fn a_request_that_succeeds_can_be_followed_in_the_events() {
    let server = Server::says("hello").await;
    let mesh = Mesh::start().await;
    mesh.service("web", [server.addr()]);
    let filter = "info,linkerd=debug";
    let length = filter.len();
    for request in [
        format!("GET /logs.json?{filter} HTTP/1.1\r\nhost: localhost\r\n\r\n"),
        format!(
            "QUERY /logs.json HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{filter}"
        ),
    ] {
        let mut wire = Wire::connect(mesh.proxy.admin.addr).await;
        wire.send(request).await;
        let head = wire.head().await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert_eq!(mesh.get("http://web/").await.text(), "hello");
        wire.until(b"connection accepted").await;
    }
    let mut wire = Wire::connect(mesh.proxy.admin.addr).await;
    wire.send("GET /logs.json?linkerd%3Ddebug HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await;
    let new = Server::says("hello").await;
    mesh.service("api", [new.addr()]);
    assert_eq!(mesh.get("http://api/").await.text(), "hello");
    let events = wire.until(b"\"connected\"").await;
    for event in ["policy updated", "endpoints updated"] {
        assert!(events.contains(event), "{events}");
    }
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
        // Each failure is one line.
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

#[tokio::test]
async fn a_dead_controller_is_one_warning_for_a_port_with_the_cause_and_one_line_at_its_return() {
    let mesh = Mesh::builder().env("LINKERD2_PROXY_INBOUND_PORTS", "8080");
    let mut mesh = mesh.start().await;
    let admin = mesh.proxy.admin;
    eventually(SOON, "the stream of the port is open", || async move {
        let ports = &admin.state().await["server_policies"]["ports"];
        let port = ports.as_array()?.iter().find(|it| it["port"] == 8080)?;
        (port["freshness"]["connected"] == true).then_some(())
    })
    .await;
    mesh.kill_control().await;
    let reached = "The control plane cannot be reached";
    let line = mesh.proxy.wait_for_log(reached).await;
    assert!(line.contains("Connection refused"), "{line}");
    mesh.proxy.wait_for_log("port=8080 status=").await;
    mesh.restart_control().await;
    for text in [
        "The control plane can be reached again",
        "open again port=8080",
    ] {
        mesh.proxy.wait_for_log(text).await;
    }
    let log = mesh.proxy.log();
    let lost = log
        .lines()
        .filter(|line| line.contains("port=8080 status="));
    assert_eq!(lost.count(), 1, "{log}");
}
