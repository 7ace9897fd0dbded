//! Families of retries: `outbound_{http,grpc}_route_retry_*`.

use linkerd_proxy_core::metrics::{Counter, Family, LabelSet, Labels, Registry, RegistryStyle};

/// The families of the retries of one kind of route.
#[derive(Clone, Debug)]
pub struct RetryFamilies {
    requests: Family<Counter>,
    successes: Family<Counter>,
    overflow: Family<Counter>,
    limit_exceeded: Family<Counter>,
    skipped: Family<Counter>,
}

/// The retries of one route.
#[derive(Debug)]
pub struct RetrySeries {
    /// Attempts after the first.
    pub requests: Counter,
    /// Requests whose last attempt succeeded, and was not the first.
    pub successes: Counter,
    /// Retries that no backend took.
    pub overflow: Counter,
    /// Requests that failed with as many attempts as are allowed.
    pub limit_exceeded: Counter,
    skipped: Family<Counter>,
    labels: LabelSet,
}

/// Why a response that could have been retried was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetrySkipped {
    /// The request's body is larger than what is kept.
    BodyTooLarge,
    /// The request's body goes on to the endpoint that has answered.
    RequestUnfinished,
    /// Retries are too large a share of requests.
    Budget,
    /// It would begin after the request's timeout.
    Deadline,
    /// The policy does not name such a failure.
    NotAllowed,
}

impl RetrySkipped {
    fn label(self) -> &'static str {
        match self {
            Self::BodyTooLarge => "body_too_large",
            Self::RequestUnfinished => "request_unfinished",
            Self::Budget => "budget",
            Self::Deadline => "deadline",
            Self::NotAllowed => "not_allowed",
        }
    }
}

impl RetryFamilies {
    pub(super) fn register(registry: &Registry, names: &RetryNames) -> Self {
        let counter = |name, help| registry.counter(RegistryStyle::OpenMetrics, name, help);
        Self {
            requests: counter(names.requests, "Attempts of requests after the first"),
            successes: counter(names.successes, "Requests that a retry saved"),
            overflow: counter(names.overflow, "Retries that no backend took"),
            limit_exceeded: counter(
                names.limit_exceeded,
                "Requests that failed with as many retries as the route allows",
            ),
            skipped: counter(
                names.skipped,
                "Failed requests that were not retried, by reason; the limit is counted apart",
            ),
        }
    }

    /// The series with these labels.
    pub fn series(&self, labels: LabelSet) -> RetrySeries {
        RetrySeries {
            requests: self.requests.get(labels.clone()),
            successes: self.successes.get(labels.clone()),
            overflow: self.overflow.get(labels.clone()),
            limit_exceeded: self.limit_exceeded.get(labels.clone()),
            skipped: self.skipped.clone(),
            labels,
        }
    }
}

impl RetrySeries {
    /// Counts a failure that is not retried.
    pub fn skipped(&self, why: RetrySkipped) {
        let reason = Labels::new().with("reason", why.label());
        self.skipped.get(self.labels.and(reason)).incr();
    }
}

/// The names of these families.
pub(super) struct RetryNames {
    pub(super) requests: &'static str,
    pub(super) successes: &'static str,
    pub(super) overflow: &'static str,
    pub(super) limit_exceeded: &'static str,
    pub(super) skipped: &'static str,
}

macro_rules! retry_names {
    ($prefix:literal) => {
        $crate::metrics::retries::RetryNames {
            requests: concat!($prefix, "_retry_requests_total"),
            successes: concat!($prefix, "_retry_successes_total"),
            overflow: concat!($prefix, "_retry_overflow_total"),
            limit_exceeded: concat!($prefix, "_retry_limit_exceeded_total"),
            skipped: concat!($prefix, "_retry_skipped_total"),
        }
    };
}

pub(super) use retry_names;
