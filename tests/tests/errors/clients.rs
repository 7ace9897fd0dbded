//! Clients with invalid requests, or without any.

use crate::Expect;
use http::Method;
use linkerd_control::Policy;
use linkerd_tests::{Http2, Mesh, SOON, Server, Wire, client_hello, empty, get, request, soon};
use std::time::Duration;

#[tokio::test]
async fn a_request_that_names_nobody() {
    let mesh = Mesh::start().await;
    let mut wire = mesh.wire().await;
    wire.send("GET / HTTP/1.0\r\n\r\n").await;
    let response = wire.rest().await;
    assert!(response.starts_with("HTTP/1.0 400"), "{response}");
    assert!(response.contains("details=\"no_authority\""), "{response}");
    mesh.proxy
        .metric_reaches("proxy_failures_total", &[("reason", "no_authority")], 1.0)
        .await;
}

#[tokio::test]
async fn a_request_that_names_nobody_in_http_1_1_keeps_its_connection() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    let mut wire = mesh.wire().await;
    wire.send("GET / HTTP/1.1\r\n\r\n").await;
    let (head, _) = wire.response().await;
    assert!(head.starts_with("HTTP/1.1 400"), "{head}");
    wire.send("GET / HTTP/1.1\r\nhost: web\r\n\r\n").await;
    assert_eq!(wire.response().await.1, "hello");
}

#[tokio::test]
async fn targets_that_are_none() {
    let mesh = Mesh::start().await;
    for request in [
        "CONNECT / HTTP/1.1\r\nhost: web\r\n\r\n",
        "CONNECT http://web/ HTTP/1.1\r\nhost: web\r\n\r\n",
        "GET web:80 HTTP/1.1\r\nhost: web\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: :80\r\n\r\n",
    ] {
        let mut wire = mesh.wire().await;
        wire.send(request).await;
        let head = wire.head().await;
        assert!(head[8..].starts_with(" 400"), "{request:?}: {head}");
    }
}

#[tokio::test]
async fn connect_over_http_2() {
    let mesh = Mesh::start().await;
    let mut request = request(Method::CONNECT, "http://web/", empty());
    *request.uri_mut() = "web:80".parse().unwrap();
    let reply = soon(mesh.http2().await.send(request)).await.unwrap();
    let expect = Expect {
        status: 400,
        reason: "invalid_request",
        text: "use HTTP/1.1",
        closes: false,
    };
    expect.check(&mesh, &reply).await;
}

#[tokio::test]
async fn a_head_that_never_ends_is_given_up() {
    let mesh = Mesh::builder()
        .env("LINKERD_PROXY_HTTP_HEADER_TIMEOUT", "300ms")
        .start()
        .await;
    let mut wire = mesh.wire().await;
    wire.send("GET / HTTP/1.1\r\nhost: web\r\nx-slow: ").await;
    let response = wire.rest().await;
    assert!(response.starts_with("HTTP/1.1 408"), "{response}");
}

#[tokio::test]
async fn a_second_head_that_never_ends_is_given_up_too() {
    let server = Server::says("hello").await;
    let mesh = Mesh::builder()
        .env("LINKERD_PROXY_HTTP_HEADER_TIMEOUT", "300ms")
        .start()
        .await;
    mesh.service("web", [server.addr()]);
    let mut wire = mesh.wire().await;
    wire.send("GET / HTTP/1.1\r\nhost: web\r\n\r\n").await;
    assert_eq!(wire.response().await.1, "hello");
    wire.send("GET / HTTP/1.1\r\nhost: we").await;
    assert!(wire.closes_within(SOON).await);
}

#[tokio::test]
async fn a_head_that_comes_drop_by_drop_is_given_up() {
    let mesh = Mesh::builder()
        .env("LINKERD_PROXY_HTTP_HEADER_TIMEOUT", "300ms")
        .start()
        .await;
    let mut wire = mesh.wire().await;
    wire.send("GET / HTTP/1.1\r\n").await;
    let mut ticks = tokio::time::interval(Duration::from_millis(50));
    for _ in 0..200 {
        ticks.tick().await;
        wire.send("x: y\r\n").await;
        if wire.closes_within(Duration::from_millis(1)).await {
            return;
        }
    }
    panic!("it is still read after ten seconds");
}

#[tokio::test]
async fn an_idle_keep_alive_connection_is_not_a_slow_head() {
    let server = Server::says("hello").await;
    let mesh = Mesh::builder()
        .env("LINKERD_PROXY_HTTP_HEADER_TIMEOUT", "100ms")
        .start()
        .await;
    mesh.service("web", [server.addr()]);
    let mut wire: Wire = mesh.wire().await;
    wire.send("GET / HTTP/1.1\r\nhost: web\r\n\r\n").await;
    assert_eq!(wire.response().await.1, "hello");
    assert!(!wire.closes_within(Duration::from_millis(500)).await);
    wire.send("GET / HTTP/1.1\r\nhost: web\r\n\r\n").await;
    assert_eq!(wire.response().await.1, "hello");
}

#[tokio::test]
async fn a_slow_upload_is_not_a_slow_head() {
    let server = Server::echo().await;
    let mesh = Mesh::builder()
        .env("LINKERD_PROXY_HTTP_HEADER_TIMEOUT", "100ms")
        .start()
        .await;
    mesh.service("web", [server.addr()]);
    let mut wire: Wire = mesh.wire().await;
    wire.send("POST / HTTP/1.1\r\nhost: web\r\ncontent-length: 6\r\n\r\none")
        .await;
    wire.head().await;
    wire.bytes(1).await;
    // Bodies have no time limit.
    let silence = Duration::from_millis(400);
    linkerd_tests::ever(silence, || async { None::<()> }).await;
    wire.send("two").await;
    assert!(wire.until(b"two").await.ends_with("two"));
}

#[tokio::test]
async fn a_client_that_connects_and_leaves_is_counted() {
    let mesh = Mesh::start().await;
    let mut wire = mesh.wire().await;
    wire.finish().await;
    assert!(wire.closes_within(SOON).await);
    mesh.proxy
        .metric_reaches("outbound_tcp_errors_total", &[], 1.0)
        .await;
}

#[tokio::test]
async fn bytes_that_are_not_http_have_nowhere_to_go_without_redirection() {
    let mesh = Mesh::start().await;
    let mut wire = mesh.wire().await;
    wire.send(b"\x00\x01\x02\x03 hello\r\n\r\n").await;
    assert!(wire.closes_within(SOON).await);
    mesh.proxy
        .metric_reaches("outbound_tcp_errors_total", &[], 1.0)
        .await;
}

#[tokio::test]
async fn tls_socks_and_line_ends_to_the_explicit_proxy_are_named_and_logged_in_one_line() {
    const LINE: &str = "A connection to the explicit proxy is not HTTP";
    for (bytes, named) in [
        (client_hello("web"), "the client speaks TLS"),
        (b"\x05\x01\x00".to_vec(), "the client speaks SOCKS5"),
        (
            b"\x04\x01\x00\x50\x7f\x00\x00\x01\x00".to_vec(),
            "the client speaks SOCKS4",
        ),
        (b"\r\n\n".to_vec(), "the client has sent line ends"),
    ] {
        let mesh = Mesh::builder()
            .env("LINKERD2_PROXY_OUTBOUND_DETECT_TIMEOUT", "300ms")
            .start()
            .await;
        // A client that is set up wrongly tries again and again.
        for _ in 0..3 {
            let mut wire = mesh.wire().await;
            wire.send(&bytes).await;
            let answer = wire.rest().await;
            assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
            assert!(answer.contains(named), "{named} in {answer}");
        }
        let line = mesh.proxy.wait_for_log(LINE).await;
        assert!(line.contains("WARN") && line.contains(named), "{line}");
        assert!(line.contains("curl -x"), "the hint: {line}");
        let log = mesh.proxy.log();
        assert_eq!(log.matches(LINE).count(), 1, "{log}");
    }
}

#[tokio::test]
async fn too_many_requests_at_once_are_shed() {
    let server = Server::says("hello").await;
    server.set_latency(Duration::from_millis(500));
    let mesh = Mesh::builder()
        .env("LINKERD2_PROXY_OUTBOUND_MAX_IN_FLIGHT", "2")
        .start()
        .await;
    mesh.service("web", [server.addr()]);
    let replies = (0..6).map(|_| mesh.get("http://web/"));
    let replies = soon(futures::future::join_all(replies)).await;
    let count = |status| {
        replies
            .iter()
            .filter(|reply| reply.status == status)
            .count()
    };
    assert_eq!((count(200), count(503)), (2, 4), "{replies:?}");
    let shed = replies.iter().find(|reply| reply.status == 503).unwrap();
    let expect = Expect {
        status: 503,
        reason: "in_flight_limit",
        text: "service unavailable",
        closes: true,
    };
    expect.check(&mesh, shed).await;
}

#[tokio::test]
async fn a_queue_that_is_full_sheds() {
    let mesh = Mesh::builder()
        .env("LINKERD2_PROXY_OUTBOUND_HTTP_QUEUE_CAPACITY", "2")
        .env("LINKERD2_PROXY_OUTBOUND_HTTP_FAILFAST_TIMEOUT", "500ms")
        .start()
        .await;
    // No answer: requests for endpoints that are known not to exist would not wait.
    mesh.policy("web").set(Policy::balance("web", 80));
    mesh.endpoints("web").silent();
    let replies = (0..8).map(|_| mesh.get("http://web/"));
    let replies = soon(futures::future::join_all(replies)).await;
    let count = |status| {
        replies
            .iter()
            .filter(|reply| reply.status == status)
            .count()
    };
    assert_eq!((count(504), count(503)), (3, 5), "{replies:?}");
    let shed = replies.iter().find(|reply| reply.status == 503).unwrap();
    assert!(
        shed.header("proxy-status").unwrap().contains("queue_full"),
        "{shed:?}"
    );
}

#[tokio::test]
async fn a_fatal_answer_ends_an_http_2_connection_to_one_target_after_what_is_in_flight() {
    let server = Server::says("hello").await;
    server.set_latency(Duration::from_millis(300));
    let mesh = Mesh::with(&server).await;
    // As in a pod: all requests of the connection have its target.
    let tunnel = Wire::tunnel(mesh.proxy.outbound, "web:80").await;
    let client = Http2::over(tunnel.into_socket()).await;
    let mut bad = get("http://web/");
    bad.headers_mut()
        .insert("l5d-require-id", "somebody.else".parse().unwrap());
    let (good, bad) =
        soon(async { tokio::join!(client.get("http://web/"), client.send(bad)) }).await;
    assert_eq!(bad.unwrap().header("l5d-proxy-connection"), Some("close"));
    assert_eq!(good.unwrap().text(), "hello");
    linkerd_tests::eventually(SOON, "the connection ends", || async {
        (!client.is_open()).then_some(())
    })
    .await;
}
