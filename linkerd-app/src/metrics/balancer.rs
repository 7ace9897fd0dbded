//! The families of balancers.

use super::outbound::seconds;
use linkerd_balance as balance;
use linkerd_proxy_core::metrics::{
    Counter, Family, Gauge, Histogram, HistogramBounds, HistogramUnit, LabelSet, Labels,
    LatestGauge, MaxGauge, Metric, Registry, RegistryStyle,
};

/// The families of one kind of balancer.
#[derive(Clone, Debug)]
pub struct BalancerFamilies {
    endpoints: Family<MaxGauge>,
    p2c_endpoints: Family<MaxGauge>,
    updates: Family<Counter>,
    queue_length: Family<Gauge>,
    queue_requests: Family<Counter>,
    queue_latency: Family<Histogram>,
    gate_open: Family<Counter>,
    gate_shut: Family<Counter>,
    gate_open_time: Family<LatestGauge>,
    gate_shut_time: Family<LatestGauge>,
    gate_timeout: Family<LatestGauge>,
    moved: Family<Counter>,
}

/// Updates of a balancer's endpoints.
#[derive(Clone, Debug)]
pub struct UpdateSeries {
    /// Replacements of the set.
    pub reset: Counter,
    /// Added or changed endpoints.
    pub add: Counter,
    /// Removed endpoints.
    pub remove: Counter,
}

impl BalancerFamilies {
    pub(super) fn register(registry: &Registry, names: &BalancerNames) -> Self {
        let counter = |name, help| registry.counter(RegistryStyle::OpenMetrics, name, help);
        let max = |name, help| registry.max_gauge(RegistryStyle::OpenMetrics, name, help);
        let latest = |name, help| registry.latest_gauge(RegistryStyle::OpenMetrics, name, help);
        Self {
            endpoints: max(names.endpoints, "Endpoints of a balancer by their state"),
            p2c_endpoints: max(names.p2c_endpoints, "Endpoints of a balancer"),
            updates: counter(names.updates, "Changes of a balancer's endpoints"),
            queue_length: registry.gauge(
                RegistryStyle::OpenMetrics,
                names.queue_length,
                "Requests that wait for an endpoint",
            ),
            queue_requests: counter(names.queue_requests, "Requests given to a balancer"),
            queue_latency: registry.histogram(
                RegistryStyle::OpenMetrics,
                names.queue_latency,
                "Time that requests wait for an endpoint",
                QUEUE_SECONDS,
            ),
            gate_open: counter(
                names.gate_open,
                "How often a balancer became available again",
            ),
            gate_shut: counter(names.gate_shut, "How often a balancer began to fail fast"),
            gate_open_time: latest(names.gate_open_time, "When it last became available"),
            gate_shut_time: latest(names.gate_shut_time, "When it last began to fail fast"),
            gate_timeout: latest(names.gate_timeout, "How long requests may wait"),
            moved: counter(
                names.moved,
                "Requests moved from an endpoint that could not take them to another",
            ),
        }
    }

    /// The handles of one balancer, for the calling thread.
    pub fn series(&self, labels: &LabelSet, failfast: std::time::Duration) -> balance::Metrics {
        fn with<M: Metric>(family: &Family<M>, labels: &LabelSet) -> M {
            family.get(labels.clone())
        }
        let state = |state| {
            let state = Labels::new().with("endpoint_state", state);
            self.endpoints.get(labels.after(state))
        };
        let timeout = with(&self.gate_timeout, labels);
        timeout.set(i64::try_from(failfast.as_secs()).unwrap_or(i64::MAX));
        balance::Metrics {
            ready: state("ready"),
            pending: state("pending"),
            p2c_endpoints: with(&self.p2c_endpoints, labels),
            queue_length: with(&self.queue_length, labels),
            queue_requests: with(&self.queue_requests, labels),
            queue_latency: with(&self.queue_latency, labels),
            gate_open: with(&self.gate_open, labels),
            gate_shut: with(&self.gate_shut, labels),
            gate_open_time: with(&self.gate_open_time, labels),
            gate_shut_time: with(&self.gate_shut_time, labels),
            gate_timeout: timeout,
            moved: with(&self.moved, labels),
        }
    }

    /// The handles of one balancer's updates, for the calling thread.
    pub fn updates(&self, labels: &LabelSet) -> UpdateSeries {
        let series = |op| self.updates.get(labels.after(Labels::new().with("op", op)));
        UpdateSeries {
            reset: series("Reset"),
            add: series("Add"),
            remove: series("Remove"),
        }
    }
}

/// The names of a balancer's families.
pub(super) struct BalancerNames {
    endpoints: &'static str,
    p2c_endpoints: &'static str,
    updates: &'static str,
    queue_length: &'static str,
    queue_requests: &'static str,
    queue_latency: &'static str,
    gate_open: &'static str,
    gate_shut: &'static str,
    gate_open_time: &'static str,
    gate_shut_time: &'static str,
    gate_timeout: &'static str,
    moved: &'static str,
}

macro_rules! balancer_names {
    ($prefix:literal) => {
        BalancerNames {
            endpoints: concat!($prefix, "_endpoints"),
            p2c_endpoints: concat!($prefix, "_p2c_endpoints"),
            updates: concat!($prefix, "_p2c_updates_total"),
            queue_length: concat!($prefix, "_queue_length"),
            queue_requests: concat!($prefix, "_queue_requests_total"),
            queue_latency: concat!($prefix, "_queue_latency_seconds"),
            gate_open: concat!($prefix, "_queue_gate_open_total"),
            gate_shut: concat!($prefix, "_queue_gate_shut_total"),
            gate_open_time: concat!($prefix, "_queue_gate_open_time_seconds"),
            gate_shut_time: concat!($prefix, "_queue_gate_shut_time_seconds"),
            gate_timeout: concat!($prefix, "_queue_gate_timeout_seconds"),
            moved: concat!($prefix, "_moved_requests_total"),
        }
    };
}

pub(super) const HTTP_BALANCER: BalancerNames = balancer_names!("outbound_http_balancer");
pub(super) const TCP_BALANCER: BalancerNames = balancer_names!("outbound_tcp_balancer");
pub(super) const TLS_BALANCER: BalancerNames = balancer_names!("outbound_tls_balancer");
pub(super) const CONTROL_DESTINATION_BALANCER: BalancerNames =
    balancer_names!("control_destination_balancer");
pub(super) const CONTROL_POLICY_BALANCER: BalancerNames =
    balancer_names!("control_policy_balancer");
pub(super) const CONTROL_IDENTITY_BALANCER: BalancerNames =
    balancer_names!("control_identity_balancer");
pub(super) const CONTROL_TRACE_COLLECTOR_BALANCER: BalancerNames =
    balancer_names!("control_trace_collector_balancer");

const QUEUE_SECONDS: &HistogramBounds = seconds!(
    500 "0.0005", 5_000 "0.005", 50_000 "0.05", 500_000 "0.5", 1_000_000 "1.0", 3_000_000 "3.0"
);
