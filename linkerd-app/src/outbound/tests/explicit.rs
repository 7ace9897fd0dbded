//! Requests through the explicit proxy, which name their targets.

use super::{TestProxy, forward, in_process_with, policy};
use crate::testing::{TestClient, TestEndpoint, TestWire};
use ::http::StatusCode;
use linkerd_profiles::{OpaqueRoute, Protocol};

const ENV: &[(&str, &str)] = &[("LINKERD_PROXY_OUTBOUND_EXPLICIT", "1")];
const WEB: &str = "test.example:80";
const A: &str = "10.0.0.1:8080";

/// Opens a tunnel to a target.
async fn tunnel(proxy: &TestProxy, target: &str) -> TestWire {
    let mut client = TestWire::from(proxy.connect_explicit());
    client
        .send(&format!(
            "CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n\r\n"
        ))
        .await;
    let head = client.head().await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    client
}

#[tokio::test(start_paused = true)]
async fn a_request_goes_to_the_target_that_it_names() {
    in_process_with(ENV, async |proxy| {
        proxy.source.set_policy(WEB, policy(forward(A)));
        let endpoint = TestEndpoint::answering(&proxy.network, A, "hello");
        // Sent in absolute form.
        let mut client = TestClient::http1(proxy.connect_explicit()).await;
        for _ in 0..2 {
            assert_eq!(client.get("/").await.body.as_deref(), Some("hello"));
        }
        assert_eq!(endpoint.requests(), 2);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_names_an_opaque_target_is_told_to_use_connect() {
    in_process_with(ENV, async |proxy| {
        let mut opaque = policy(forward(A));
        opaque.protocol = Protocol::Opaque(Some(OpaqueRoute {
            meta: opaque.parent.clone(),
            distribution: forward(A),
            filter: None,
        }));
        proxy.source.set_policy(WEB, opaque);
        let mut client = TestClient::http1(proxy.connect_explicit()).await;
        let response = client.get("/").await;
        assert_eq!(response.head.status, StatusCode::BAD_REQUEST);
        assert!(response.body.unwrap().contains("CONNECT"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn http_in_a_tunnel_is_routed_as_a_connection_to_its_target() {
    in_process_with(ENV, async |proxy| {
        proxy.source.set_policy(WEB, policy(forward(A)));
        let endpoint = TestEndpoint::answering(&proxy.network, A, "hello");
        let mut client = tunnel(&proxy, WEB).await;
        for _ in 0..2 {
            client.send("GET / HTTP/1.1\r\nhost: web\r\n\r\n").await;
            assert!(client.head().await.starts_with("HTTP/1.1 200"));
            client.expect("hello").await;
        }
        assert_eq!(endpoint.requests(), 2);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn bytes_in_a_tunnel_are_relayed_until_the_listener_cuts_it_off() {
    in_process_with(ENV, async |proxy| {
        proxy.source.set_policy(WEB, policy(forward(A)));
        let mut accepting = proxy.network.listen(A);
        let mut client = tunnel(&proxy, WEB).await;
        client.send("\0query").await;
        let mut server = TestWire::from(accepting.recv().await.unwrap());
        server.expect("\0query").await;
        server.send("rows").await;
        client.expect("rows").await;
        proxy.cut_off();
        assert_eq!(
            (client.rest().await, server.rest().await),
            Default::default()
        );
        proxy.drain().await;
    })
    .await;
}
