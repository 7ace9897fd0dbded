//! The figures of one balancer.

use linkerd_proxy_core::metrics::{
    Counter, Gauge, Histogram, LATENCY_MS, LatestGauge, MaxGauge, Metric,
};

/// Handles of the `*_balancer_*` families, for the balancer's worker.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// `endpoints{endpoint_state="ready"}`
    pub ready: MaxGauge,
    /// `endpoints{endpoint_state="pending"}`
    pub pending: MaxGauge,
    /// `p2c_endpoints`
    pub p2c_endpoints: MaxGauge,
    /// `queue_length`
    pub queue_length: Gauge,
    /// `queue_requests_total`
    pub queue_requests: Counter,
    /// `queue_latency_seconds`
    pub queue_latency: Histogram,
    /// `queue_gate_open_total`
    pub gate_open: Counter,
    /// `queue_gate_shut_total`
    pub gate_shut: Counter,
    /// `queue_gate_open_time_seconds`
    pub gate_open_time: LatestGauge,
    /// `queue_gate_shut_time_seconds`
    pub gate_shut_time: LatestGauge,
    /// `queue_gate_timeout_seconds`, held so that the series is not dropped.
    pub gate_timeout: LatestGauge,
    /// Requests moved to another endpoint because the first could not take them.
    pub moved: Counter,
}

impl Metrics {
    /// Handles that are not shown, for a balancer without families.
    pub fn detached() -> Self {
        Self {
            ready: MaxGauge::new(()),
            pending: MaxGauge::new(()),
            p2c_endpoints: MaxGauge::new(()),
            queue_length: Gauge::new(()),
            queue_requests: Counter::new(()),
            queue_latency: Histogram::new(LATENCY_MS.into()),
            gate_open: Counter::new(()),
            gate_shut: Counter::new(()),
            gate_open_time: LatestGauge::new(()),
            gate_shut_time: LatestGauge::new(()),
            gate_timeout: LatestGauge::new(()),
            moved: Counter::new(()),
        }
    }
}
