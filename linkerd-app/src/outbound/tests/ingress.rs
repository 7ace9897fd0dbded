//! Ingress mode: requests that name their targets by a header.

use super::{TestProxy, forward, in_process_with, policy};
use crate::testing::{TestEndpoint, TestWire};
use linkerd_profiles::{OpaqueRoute, Protocol};

const ENV: &[(&str, &str)] = &[("LINKERD2_PROXY_INGRESS_MODE", "true")];
const ORIGINAL: &str = "10.1.0.1:80";
const WEB: &str = "web.example:80";
const A: &str = "10.0.0.1:8080";
const B: &str = "10.0.0.2:8080";

/// The status line of the answer to a request with this override, on a connection that was going to `ORIGINAL`.
async fn get(client: &mut TestWire, header: &str) -> String {
    let head = "GET / HTTP/1.1\r\nhost: any.example\r\n";
    client.send(&format!("{head}{header}\r\n")).await;
    let head = client.head().await;
    head.lines().next().unwrap_or_default().to_owned()
}

async fn both(proxy: &TestProxy) -> (TestEndpoint, TestEndpoint) {
    proxy.source.set_policy(ORIGINAL, policy(forward(A)));
    proxy.source.set_policy(WEB, policy(forward(B)));
    (
        TestEndpoint::answering(&proxy.network, A, ""),
        TestEndpoint::answering(&proxy.network, B, ""),
    )
}

#[tokio::test(start_paused = true)]
async fn each_request_goes_where_its_header_says_or_where_its_connection_went() {
    in_process_with(ENV, async |proxy| {
        let (a, b) = both(&proxy).await;
        let mut client = TestWire::from(proxy.connect(ORIGINAL));
        for (header, requests) in [
            ("", (1, 0)),
            ("l5d-dst-override: web.example:80\r\n", (1, 1)),
            ("l5d-dst-override: web.example\r\n", (1, 2)),
            ("", (2, 2)),
            ("l5d-dst-override: not an authority\r\n", (3, 2)),
        ] {
            let status = get(&mut client, header).await;
            assert_eq!(status, "HTTP/1.1 200 OK", "{header}");
            assert_eq!((a.requests(), b.requests()), requests, "{header}");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_target_that_takes_no_requests_is_an_answer_and_no_closed_connection() {
    in_process_with(ENV, async |proxy| {
        let _endpoints = both(&proxy).await;
        let mut opaque = policy(forward(A));
        opaque.protocol = Protocol::Opaque(Some(OpaqueRoute {
            meta: opaque.parent.clone(),
            distribution: forward(A),
            filter: None,
        }));
        proxy.source.set_policy("db.example:80", opaque);
        for named in ["10.0.0.9", "10.0.0.9:80", "[::1]:80", "db.example"] {
            let mut client = TestWire::from(proxy.connect(ORIGINAL));
            let header = format!("l5d-dst-override: {named}\r\n");
            let status = get(&mut client, &header).await;
            assert_eq!(status, "HTTP/1.1 400 Bad Request", "{named}");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn bytes_that_are_not_http_go_where_their_connection_went() {
    in_process_with(ENV, async |proxy| {
        proxy.source.set_policy(ORIGINAL, policy(forward(A)));
        let mut accepting = proxy.network.listen(A);
        let mut client = TestWire::from(proxy.connect(ORIGINAL));
        client.send("\0query").await;
        let mut server = TestWire::from(accepting.recv().await.unwrap());
        server.expect("\0query").await;
        client.finish().await;
        assert_eq!(server.rest().await, "");
        let detected = proxy.metric(
            "outbound_tcp_detect_http_results_total",
            &["parent_name=\"ingress\"", "result=\"not_http\""],
        );
        assert_eq!(detected, 1.0);
    })
    .await;
}
