//! HTTP/1 connections that are upgraded (101) or become a tunnel (CONNECT).

use super::{TestProxy, in_process};
use crate::testing::TestWire;
use std::time::Duration;

const APP: &str = "10.0.0.9:8080";

/// A tunnel through the application, and the application's end of it.
async fn tunnel(proxy: &TestProxy) -> (TestWire, TestWire) {
    let mut accepting = proxy.network.listen(APP);
    let mut peer = proxy.wire(APP);
    peer.send("CONNECT app:80 HTTP/1.1\r\nhost: app:80\r\n\r\n")
        .await;
    let mut application = TestWire::from(accepting.recv().await.unwrap());
    assert!(application.head().await.starts_with("CONNECT app:80 "));
    application.send("HTTP/1.1 200 OK\r\n\r\n").await;
    assert!(peer.head().await.starts_with("HTTP/1.1 200"));
    (peer, application)
}

#[tokio::test(start_paused = true)]
async fn bytes_pass_an_upgraded_connection_and_drain_waits_for_its_end() {
    in_process(async |proxy| {
        let mut accepting = proxy.network.listen(APP);
        let mut peer = proxy.wire(APP);
        let upgrade = "connection: upgrade\r\nupgrade: test\r\n\r\n";
        peer.send(&format!("GET / HTTP/1.1\r\nhost: app\r\n{upgrade}early"))
            .await;
        let mut application = TestWire::from(accepting.recv().await.unwrap());
        application.head().await;
        application
            .send(&format!(
                "HTTP/1.1 101 Switching Protocols\r\n{upgrade}first"
            ))
            .await;
        assert!(peer.head().await.starts_with("HTTP/1.1 101"));
        peer.expect("first").await;
        application.expect("early").await;

        let mut drained = tokio_test::task::spawn(proxy.drain());
        assert!(drained.poll().is_pending());
        tokio::time::sleep(Duration::from_secs(60)).await;
        peer.send("ping").await;
        application.expect("ping").await;
        peer.finish().await;
        application.finish().await;
        drained.await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn http1_in_a_tunnel_is_served_without_claims() {
    in_process(async |proxy| {
        let (mut peer, mut application) = tunnel(&proxy).await;
        for path in ["/one", "/two"] {
            let claim = "l5d-client-id: admin";
            peer.send(&format!(
                "GET {path} HTTP/1.1\r\nhost: app\r\n{claim}\r\n\r\n"
            ))
            .await;
            let head = application.head().await;
            assert!(head.starts_with(&format!("GET {path} ")), "{head}");
            assert!(!head.contains("l5d-client-id"), "{head}");
            application
                .send("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello")
                .await;
            assert!(peer.head().await.starts_with("HTTP/1.1 200"));
            peer.expect("hello").await;
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn other_bytes_in_a_tunnel_are_relayed_until_the_listener_cuts_it_off() {
    in_process(async |proxy| {
        let (mut peer, mut application) = tunnel(&proxy).await;
        peer.send("\0query").await;
        application.expect("\0query").await;
        application.send("rows").await;
        peer.expect("rows").await;
        proxy.cut_off();
        assert_eq!(
            (peer.rest().await, application.rest().await),
            Default::default()
        );
        proxy.drain().await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn http2_in_a_tunnel_ends_it() {
    in_process(async |proxy| {
        let (mut peer, mut application) = tunnel(&proxy).await;
        peer.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        assert_eq!(peer.rest().await, "");
        assert_eq!(application.rest().await, "");
    })
    .await;
}
