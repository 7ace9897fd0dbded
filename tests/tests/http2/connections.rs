//! Many streams, and closed connections.

use futures::future::join_all;
use linkerd_tests::{Load, Mesh, Server, reply, soon};
use std::time::{Duration, Instant};

#[tokio::test]
async fn one_connection_carries_many_requests_at_once() {
    let server = Server::says("hello").await;
    server.set_latency(Duration::from_millis(200));
    let mesh = Mesh::with(&server).await;
    let client = mesh.http2().await;
    let replies = (0..100).map(|_| client.get("http://web/"));
    for reply in soon(join_all(replies)).await {
        assert_eq!(reply.unwrap().text(), "hello");
    }
    assert_eq!(server.connections(), 1, "no limit of streams asks for more");
}

#[tokio::test]
async fn the_first_request_is_not_held_up() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    // The control plane uses HTTP/2, too.
    let start = Instant::now();
    mesh.get("http://web/").await;
    assert!(start.elapsed() < UNNOTICED, "{:?}", start.elapsed());
    let client = mesh.http2().await;
    let start = Instant::now();
    soon(client.get("http://web/")).await.unwrap();
    assert!(start.elapsed() < UNNOTICED, "{:?}", start.elapsed());
}

/// Far more than a request takes on a busy machine, and less than any timer of the proxy.
const UNNOTICED: Duration = Duration::from_millis(700);

#[tokio::test]
async fn a_server_that_takes_ten_streams_at_a_time_answers_two_hundred() {
    let server = Server::builder()
        .max_streams(10)
        .start(|_| async { reply("hello") })
        .await;
    server.set_latency(Duration::from_millis(20));
    let mesh = Mesh::with(&server).await;
    let client = mesh.http2().await;
    let replies = (0..200).map(|_| client.get("http://web/"));
    for reply in soon(join_all(replies)).await {
        let reply = reply.unwrap();
        assert_eq!((reply.status.as_u16(), reply.text()), (200, "hello"));
    }
    assert!(
        server.connections() > 1,
        "another connection is opened at the limit"
    );
    assert!(server.connections() <= 8, "{}", server.connections());
}

#[tokio::test]
async fn a_goaway_under_load_loses_nothing() {
    let server = Server::says("hello").await;
    server.set_latency(Duration::from_millis(5));
    let mesh = Mesh::with(&server).await;
    let load = Load::http2(&mesh, 8, Duration::ZERO, "http://web/");
    for _ in 0..20 {
        load.more(50).await;
        server.goaway();
    }
    load.stop().await.assert_clean();
    assert!(server.connections() > 10, "{}", server.connections());
}

#[tokio::test]
async fn http_1_and_http_2_share_a_service() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    let (mut old, new) = (mesh.http1().await, mesh.http2().await);
    for _ in 0..3 {
        assert_eq!(soon(old.get("http://web/")).await.unwrap().text(), "hello");
        assert_eq!(soon(new.get("http://web/")).await.unwrap().text(), "hello");
    }
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn http_2_servers_stopped_and_restarted_fail_no_get() {
    let mut server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    let load = Load::http2(&mesh, 4, Duration::from_millis(2), "http://web/");
    load.more(100).await;
    server.stop().await;
    mesh.proxy
        .metric_reaches("tcp_close_total", &[("peer", "dst")], 1.0)
        .await;
    server.restart();
    load.more(100).await;
    load.stop().await.assert_clean();
}
