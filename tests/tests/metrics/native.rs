//! Native histograms, scraped by a real Prometheus.

use linkerd_tests::{Mesh, PROMETHEUS, Prometheus, SOON, Server, eventually, is_installed, reply};

const NATIVE: &str = "LINKERD_PROXY_METRICS_NATIVE_HISTOGRAMS";

#[tokio::test]
async fn prometheus_takes_native_histograms_and_all_other_series() {
    if !is_installed("prometheus", PROMETHEUS) {
        return;
    }
    let web = Server::start(|_| async { reply("hello") }).await;
    let mesh = Mesh::builder().env(NATIVE, true).start().await;
    mesh.service("web", [web.addr()]);
    for _ in 0..REQUESTS {
        assert_eq!(mesh.get("http://web/").await.status, 200);
    }
    let prometheus = Prometheus::start(mesh.proxy.admin.addr).await;
    let values = [
        (
            "histogram_count(response_latency_ms{direction='outbound'})",
            f64::from(REQUESTS),
        ),
        ("request_total{direction='outbound'}", f64::from(REQUESTS)),
        ("up", 1.0),
    ];
    for (expression, expected) in values {
        let wait = eventually(SOON, expression, || prometheus.query(expression));
        assert_eq!(wait.await, expected, "{expression}");
    }
    // The classic buckets begin at 1 ms.
    let median = "histogram_quantile(0.5, response_latency_ms{direction='outbound'})";
    let median = prometheus.query(median).await.unwrap();
    assert!(median > 0.0 && median < 60_000.0, "{median}");
    // The text format has classic histograms.
    let text = mesh.proxy.metrics().await;
    let count = text.sum("response_latency_ms_count", &[("direction", "outbound")]);
    assert_eq!(count, f64::from(REQUESTS));
}

#[tokio::test]
async fn without_the_setting_prometheus_gets_classic_ones() {
    if !is_installed("prometheus", PROMETHEUS) {
        return;
    }
    let web = Server::start(|_| async { reply("hello") }).await;
    let mesh = Mesh::with(&web).await;
    mesh.get("http://web/").await;
    let prometheus = Prometheus::start(mesh.proxy.admin.addr).await;
    let classic = "response_latency_ms_bucket{direction='outbound',le='+Inf'}";
    let wait = eventually(SOON, classic, || prometheus.query(classic));
    assert_eq!(wait.await, 1.0);
    let native = "histogram_count(response_latency_ms)";
    assert_eq!(prometheus.query(native).await, None);
}

const REQUESTS: u32 = 20;
