//! Upgrades of connections to other protocols.

use super::{forward, in_process, policy};
use crate::testing::TestWire;
use std::time::Duration;

const WEB: &str = "10.1.0.1:80";
const A: &str = "10.0.0.1:8080";

const ASK: &str =
    "GET / HTTP/1.1\r\nhost: web\r\nconnection: upgrade\r\nupgrade: test\r\n\r\nearly";

const AGREE: &str =
    "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: test\r\n\r\nfirst";

#[tokio::test(start_paused = true)]
async fn bytes_pass_an_upgraded_connection_and_drain_waits_for_its_end() {
    in_process(async |proxy| {
        proxy.source.set_policy(WEB, policy(forward(A)));
        let mut accepting = proxy.network.listen(A);
        let mut client = proxy.wire(WEB);
        client.send(ASK).await;
        let mut server = TestWire::from(accepting.recv().await.unwrap());
        server.head().await;
        server.send(AGREE).await;
        assert!(client.head().await.starts_with("HTTP/1.1 101"));
        client.expect("first").await;
        server.expect("early").await;

        let mut drained = tokio_test::task::spawn(proxy.drain());
        assert!(drained.poll().is_pending());
        tokio::time::sleep(Duration::from_secs(60)).await;
        client.send("ping").await;
        server.expect("ping").await;
        client.finish().await;
        assert_eq!(server.rest().await, "");
        server.send("last").await;
        server.finish().await;
        assert_eq!(client.rest().await, "last");
        drained.await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_upgraded_connection_ends_when_its_listener_cuts_it_off() {
    in_process(async |proxy| {
        proxy.source.set_policy(WEB, policy(forward(A)));
        let mut accepting = proxy.network.listen(A);
        let mut client = proxy.wire(WEB);
        client.send(ASK).await;
        let mut server = TestWire::from(accepting.recv().await.unwrap());
        server.head().await;
        server.send(AGREE).await;
        client.head().await;
        client.expect("first").await;
        proxy.cut_off();
        assert_eq!(client.rest().await, "");
        proxy.drain().await;
    })
    .await;
}
