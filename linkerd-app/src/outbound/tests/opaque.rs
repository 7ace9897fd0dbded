//! Connections that are not HTTP.

use super::{backend, forward, in_process, policy};
use linkerd_profiles::{OpaqueRoute, Protocol, TcpFilter};
use linkerd_proxy_core::Reason;
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::Instant,
};

const DB: &str = "10.1.0.1:5432";
const A: &str = "10.0.0.1:5432";

#[tokio::test(start_paused = true)]
async fn bytes_pass_both_ways_until_both_sides_have_ended() {
    in_process(async |proxy| {
        proxy.source.set_policy(DB, policy(backend("db:5432")));
        proxy.source.set_endpoints("db:5432", &[A]);
        let mut accepting = proxy.network.listen(A);
        let mut client = proxy.connect(DB);
        client.write_all(b"\x00query").await.unwrap();
        let mut server = accepting.recv().await.unwrap();
        let mut query = [0; 6];
        server.read_exact(&mut query).await.unwrap();
        assert_eq!(&query, b"\x00query");
        client.shutdown().await.unwrap();
        assert_eq!(server.read(&mut query).await.unwrap(), 0);
        server.write_all(b"rows").await.unwrap();
        server.shutdown().await.unwrap();
        let mut rows = String::new();
        client.read_to_string(&mut rows).await.unwrap();
        assert_eq!(rows, "rows");
        proxy.settle().await;
        let closed = proxy.metric("outbound_tcp_route_close_total", &["error=\"\""]);
        assert_eq!(closed, 1.0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_speaks_first_is_heard_after_the_detection_timeout() {
    in_process(async |proxy| {
        proxy.source.set_policy(DB, policy(forward(A)));
        let mut accepting = proxy.network.listen(A);
        let mut client = proxy.connect(DB);
        let start = Instant::now();
        let mut server = accepting.recv().await.unwrap();
        assert!(start.elapsed() >= proxy.ctx.config.outbound.detect_timeout);
        server.write_all(b"hello").await.unwrap();
        let mut hello = [0; 5];
        client.read_exact(&mut hello).await.unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_or_forbidden_connection_is_closed() {
    in_process(async |proxy| {
        proxy.source.set_policy(DB, policy(forward(A)));
        let mut refused = proxy.connect(DB);
        refused.write_all(b"\x00").await.unwrap();
        assert_eq!(refused.read(&mut [0]).await.unwrap(), 0);

        let mut forbidden = policy(forward(A));
        let filter = Some(TcpFilter::Forbidden);
        let meta = forbidden.parent.clone();
        forbidden.protocol = Protocol::Opaque(Some(OpaqueRoute {
            meta,
            distribution: backend("db:5432"),
            filter,
        }));
        proxy.source.set_policy(DB, forbidden);
        proxy.settle().await;
        let mut forbidden = proxy.connect(DB);
        assert_eq!(forbidden.read(&mut [0]).await.unwrap(), 0);
        for reason in [Reason::ConnectRefused, Reason::Forbidden] {
            let label = format!("error=\"{}\"", reason.error_label());
            assert_eq!(proxy.metric("outbound_tcp_errors_total", &[&label]), 1.0);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_waits_for_an_endpoint_until_the_failfast_timeout() {
    in_process(async |proxy| {
        proxy.source.set_policy(DB, policy(backend("db:5432")));
        let mut client = proxy.connect(DB);
        client.write_all(b"\x00").await.unwrap();
        let start = Instant::now();
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
        let failfast = proxy.ctx.config.outbound.tcp_queue.failfast;
        assert_eq!(start.elapsed(), failfast);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_to_endpoints_that_are_known_not_to_exist_does_not_wait() {
    in_process(async |proxy| {
        proxy.source.set_policy(DB, policy(backend("db:5432")));
        proxy.source.set_endpoints("db:5432", &[]);
        let mut client = proxy.connect(DB);
        client.write_all(b"\x00").await.unwrap();
        let start = Instant::now();
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
        assert_eq!(start.elapsed(), Duration::ZERO);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn drain_waits_for_a_relayed_connection() {
    in_process(async |proxy| {
        proxy.source.set_policy(DB, policy(forward(A)));
        let mut accepting = proxy.network.listen(A);
        let mut client = proxy.connect(DB);
        client.write_all(b"\x00").await.unwrap();
        let server = accepting.recv().await.unwrap();
        proxy.settle().await;
        let mut drained = tokio_test::task::spawn(proxy.drain());
        assert!(drained.poll().is_pending());
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(drained.poll().is_pending());
        drop((client, server));
        drained.await;
    })
    .await;
}
