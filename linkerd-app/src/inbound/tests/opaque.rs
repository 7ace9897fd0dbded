//! Connections that are not HTTP.

use super::{in_process, in_process_with};
use crate::testing::TestWire;
use linkerd_control::Authority;
use linkerd_proxy_core::Reason;

const DB: &str = "10.0.0.9:5432";

#[tokio::test(start_paused = true)]
async fn bytes_pass_both_ways_until_both_sides_have_ended() {
    in_process(async |proxy| {
        let mut accepting = proxy.network.listen(DB);
        let mut peer = proxy.wire(DB);
        peer.send("\0query").await;
        let mut application = TestWire::from(accepting.recv().await.unwrap());
        application.expect("\0query").await;
        peer.finish().await;
        assert_eq!(application.rest().await, "");
        application.send("rows").await;
        application.finish().await;
        assert_eq!(peer.rest().await, "rows");
        proxy.drain().await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_speaks_first_is_heard_after_the_detection_timeout() {
    in_process(async |proxy| {
        let mut accepting = proxy.network.listen(DB);
        let mut peer = proxy.wire(DB);
        let mut application = TestWire::from(accepting.recv().await.unwrap());
        application.send("hello").await;
        peer.expect("hello").await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn with_an_identity_and_no_certificate_nothing_is_forwarded() {
    let files = tempfile::tempdir().unwrap();
    let token = files.path().join("token");
    std::fs::write(&token, "token").unwrap();
    let authority = Authority::generate("root").unwrap();
    let (files, token) = (files.path().display(), token.display());
    let env = [
        ("LOCAL_NAME", "db.test".to_owned()),
        ("TRUST_ANCHORS", authority.trust_anchors().to_owned()),
        ("DIR", files.to_string()),
        ("TOKEN_FILE", token.to_string()),
        ("SVC_ADDR", "127.0.0.1:1".to_owned()),
    ];
    let env = env.map(|(name, value)| (format!("LINKERD2_PROXY_IDENTITY_{name}"), value));
    let env: Vec<_> = env
        .iter()
        .map(|(name, value)| (&**name, &**value))
        .collect();
    in_process_with(&env, async |proxy| {
        let mut accepting = proxy.network.listen(DB);
        let mut peer = proxy.wire(DB);
        peer.send("\0query").await;
        assert_eq!(peer.rest().await, "");
        let label = format!("error=\"{}\"", Reason::NoCertificate.error_label());
        let counted = proxy.metric("inbound_tcp_errors_total", &[&label]);
        assert_eq!(counted, 1.0);
        assert!(
            accepting.try_recv().is_err(),
            "the application is not dialled"
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_opaque_port_is_relayed_without_a_look() {
    let opaque = "LINKERD2_PROXY_INBOUND_PORTS_DISABLE_PROTOCOL_DETECTION";
    in_process_with(&[(opaque, "5432")], async |proxy| {
        let mut accepting = proxy.network.listen(DB);
        let mut peer = proxy.wire(DB);
        let mut application = TestWire::from(accepting.recv().await.unwrap());
        peer.send("GET / HTTP/1.1\r\n\r\n").await;
        application.expect("GET / HTTP/1.1\r\n\r\n").await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_is_not_let_in_and_an_application_that_is_gone_are_closed() {
    let policy = "LINKERD2_PROXY_INBOUND_DEFAULT_POLICY";
    for (value, reason) in [
        ("deny", Reason::Unauthorized),
        ("all-authenticated", Reason::Unauthorized),
        ("all-unauthenticated", Reason::ConnectRefused),
    ] {
        in_process_with(&[(policy, value)], async |proxy| {
            let mut peer = proxy.wire(DB);
            peer.send("\0query").await;
            assert_eq!(peer.rest().await, "", "{value}");
            let label = format!("error=\"{}\"", reason.error_label());
            let closed = proxy.metric("inbound_tcp_errors_total", &[&label]);
            assert_eq!(closed, 1.0, "{value}");
        })
        .await;
    }
}
