//! A proxy with an identity before its first certificate.

use linkerd_control::{Endpoint, EndpointSet, Policy};
use linkerd_tests::{Meshed, SOON, Server, Wire, binary, eventually};

const GET: &str = "GET / HTTP/1.1\r\nhost: api\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn nothing_is_forwarded_before_the_first_certificate() {
    let server = Server::says("hello").await;
    let mesh = Meshed::start(|web| web, |api| api).await;
    // An endpoint without an identity.
    let name = "plain.default.svc.cluster.local:80";
    mesh.controller
        .policy("plain:80")
        .set(Policy::balance("plain", 80));
    mesh.controller
        .destination(name)
        .set(EndpointSet::new([Endpoint::new(server.addr())]));
    mesh.controller
        .identity()
        .fail(tonic::Status::permission_denied("not for you"));
    let late = mesh.proxy("late");
    let late = late.env("LINKERD2_PROXY_OUTBOUND_DETECT_TIMEOUT", "300ms");
    let late = late.start_unready().await;
    let ask = async || {
        let mut wire = Wire::connect(late.outbound).await;
        wire.send(GET.replace("host: api", "host: plain")).await;
        wire.head().await
    };
    let head = ask().await;
    assert!(head.starts_with("HTTP/1.1 503"), "{head}");
    assert!(head.contains("no_certificate"), "{head}");
    assert_eq!(server.requests(), 0);
    late.metric_reaches("proxy_failures_total", &[("reason", "no_certificate")], 1.0)
        .await;
    // With the certificate requests pass.
    mesh.controller.identity().restore();
    eventually(SOON, "the proxy is certified", || async {
        ask().await.starts_with("HTTP/1.1 200").then_some(())
    })
    .await;
}

/// It took 40 ms of CPU, before the first byte of a proxy with an identity.
#[test]
fn the_binary_gathers_no_jitter_entropy_at_its_start() {
    let program = std::fs::read(binary()).unwrap();
    let has = |symbol: &[u8]| program.windows(symbol.len()).any(|found| found == symbol);
    // A stripped binary has no names of functions at all.
    let is_stripped = !has(b"EVP_DigestSignInit");
    assert!(
        is_stripped || !has(b"jent_entropy_init"),
        "AWS_LC_SYS_NO_JITTER_ENTROPY is not set: was it built in this directory?"
    );
}
