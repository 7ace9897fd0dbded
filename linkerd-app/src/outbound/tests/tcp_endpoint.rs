//! The stage of one endpoint of opaque connections, over a network in memory.

use super::{TestProxy, in_process};
use crate::outbound::{
    lazy::EndpointTarget,
    tcp_route::endpoint::{NewTcpEndpoint, TcpEndpoint},
};
use linkerd_proxy_core::{
    EndpointStatus, NewService, Reason, endpoint::Capacity, endpoint::Endpoint,
};
use std::{sync::Arc, task::Poll, time::Duration};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tower_service::Service;

const A: &str = "10.1.1.1:5432";

fn endpoint(proxy: &TestProxy) -> (TcpEndpoint, EndpointStatus) {
    let status = EndpointStatus::new(Capacity::OnDemand);
    let target = EndpointTarget {
        endpoint: Arc::new(Endpoint::new(A.parse().unwrap())),
        status: status.clone(),
    };
    let new = NewTcpEndpoint::new(&proxy.ctx, "db", "opaq");
    (new.new_service(target), status)
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_opened_for_each_call() {
    in_process(async |proxy| {
        let mut accepting = proxy.network.listen(A);
        let (mut endpoint, _) = endpoint(&proxy);
        for byte in [b'a', b'b'] {
            let mut client = endpoint.call(()).await.ok().unwrap();
            let mut server = accepting.recv().await.unwrap();
            client.write_all(&[byte]).await.unwrap();
            client.flush().await.unwrap();
            assert_eq!(server.read_u8().await.unwrap(), byte);
        }
        let opened = ["direction=\"outbound\"", "peer=\"dst\""];
        assert_eq!(proxy.metric("tcp_open_total", &opened), 2.0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn after_a_refusal_it_has_no_connection_until_its_backoff_has_passed() {
    in_process(async |proxy| {
        let (mut endpoint, status) = endpoint(&proxy);
        let rejected = endpoint.call(()).await.err().unwrap();
        assert_eq!(rejected.error.reason(), Reason::ConnectRefused);
        assert!(rejected.request.is_some(), "another endpoint may have it");
        assert!(status.is_down());
        let mut endpoint = tokio_test::task::spawn(endpoint);
        let ready = endpoint.enter(|cx, mut endpoint| endpoint.poll_ready(cx));
        assert!(ready.is_pending());
        let backoff = proxy.ctx.config.outbound.connect.backoff;
        tokio::time::sleep(backoff.clamp(Duration::MAX)).await;
        assert!(endpoint.is_woken());
        let ready = endpoint.enter(|cx, mut endpoint| endpoint.poll_ready(cx));
        assert!(matches!(ready, Poll::Ready(Ok(()))));

        let _accepting = proxy.network.listen(A);
        assert!(endpoint.call(()).await.is_ok());
        assert!(!status.is_down());
    })
    .await;
}
