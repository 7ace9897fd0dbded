//! The `route_*` families: routes of service profiles.

use super::retries::{CountRetries, RetrySkipped};
use linkerd_profiles::ProfileRoute;
use linkerd_proxy_core::{
    Destination,
    metrics::{Counter, Family, Histogram, LATENCY_MS, LabelSet, Labels, Registry, RegistryStyle},
};

/// Requests of profile routes and their responses.
#[derive(Clone, Debug)]
pub struct ProfileRouteFamilies {
    /// `route_request_total`
    pub requests: Family<Counter>,
    /// `route_response_total`
    pub responses: Family<Counter>,
    /// `route_response_latency_ms`
    pub latency: Family<Histogram>,
    /// `route_actual_request_total`
    pub actual_requests: Family<Counter>,
    /// `route_actual_response_total`
    pub actual_responses: Family<Counter>,
    /// `route_retryable_total`
    pub retryable: Family<Counter>,
}

impl ProfileRouteFamilies {
    pub(super) fn register(registry: &Registry) -> Self {
        let counter = |name, help| registry.counter(RegistryStyle::Legacy, name, help);
        Self {
            requests: counter(
                "route_request_total",
                "Total count of requests of a profile's route",
            ),
            latency: registry.histogram(
                RegistryStyle::Legacy,
                "route_response_latency_ms",
                "Time from a request of a profile's route to the first frame of its response's body, in milliseconds",
                LATENCY_MS,
            ),
            responses: counter(
                "route_response_total",
                "Total count of responses of a profile's route, by class",
            ),
            actual_requests: counter(
                "route_actual_request_total",
                "Total count of attempts to send requests of a profile's route, retries included",
            ),
            actual_responses: counter(
                "route_actual_response_total",
                "Total count of responses to these attempts, by class",
            ),
            retryable: counter(
                "route_retryable_total",
                "Total count of failures of a profile's route that could be retried",
            ),
        }
    }

    /// The labels of a route of a profile of this name, for one direction.
    pub fn labels(direction: &'static str, logical: &Destination, route: &ProfileRoute) -> Labels {
        let labels = Labels::new()
            .with("direction", direction)
            .with("dst", logical);
        let own = route.labels.iter();
        labels.with_all(
            "rt_",
            own.map(|(name, value)| (name.as_str(), value.as_str())),
        )
    }
}

/// The retries of a profile's route: `route_retryable_total`.
#[derive(Debug)]
pub struct ProfileRetries {
    retryable: Counter,
    no_budget: Counter,
}

impl ProfileRetries {
    /// Counts in series with these labels.
    pub fn new(families: &ProfileRouteFamilies, labels: &LabelSet) -> Self {
        let skipped = Labels::new().with("skipped", "no_budget");
        Self {
            retryable: families.retryable.get(labels.clone()),
            no_budget: families.retryable.get(labels.and(skipped)),
        }
    }
}

impl CountRetries for ProfileRetries {
    fn retried(&self) {
        self.retryable.incr();
    }

    fn skipped(&self, why: RetrySkipped) {
        if why == RetrySkipped::Budget {
            self.no_budget.incr();
        }
    }
}
