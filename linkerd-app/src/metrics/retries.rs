//! Families of retries: `outbound_{http,grpc}_route_retry_*`.

use linkerd_proxy_core::metrics::{Counter, Family, LabelSet, Labels, Registry, RegistryStyle};
use std::{cell::OnceCell, fmt};

/// The families of the retries of one kind of route.
#[derive(Clone, Debug)]
pub struct RetryFamilies {
    requests: Family<Counter>,
    successes: Family<Counter>,
    overflow: Family<Counter>,
    limit_exceeded: Family<Counter>,
    skipped: Family<Counter>,
}

/// Counts the retries of a route.
pub trait CountRetries: fmt::Debug {
    /// A request that may be retried.
    fn begun(&self) {}

    /// An attempt after the first.
    fn retried(&self);

    /// A request whose last attempt succeeded, and was not the first.
    fn saved(&self) {}

    /// A retry that no backend took.
    fn overflowed(&self) {}

    /// A request that failed with as many attempts as are allowed.
    fn limited(&self) {}

    /// A failure that is not retried.
    fn skipped(&self, why: RetrySkipped);
}

/// The retries of a policy's route. Its series are made for the first request.
#[derive(Debug)]
pub struct PolicyRetries {
    families: RetryFamilies,
    labels: LabelSet,
    series: OnceCell<RetrySeries>,
}

#[derive(Debug)]
struct RetrySeries {
    requests: Counter,
    successes: Counter,
    overflow: Counter,
    limit_exceeded: Counter,
}

/// The reason for which a failure was not retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetrySkipped {
    /// The request's body turned out to be larger than the kept bytes.
    BodyTooLarge,
    /// The request's body is known to be too large or broke off, or the request may upgrade its connection.
    NotReplayable,
    /// The request's body goes on to the endpoint that has answered.
    RequestUnfinished,
    /// Retries are too large a share of requests.
    Budget,
    /// The retry would begin after the request's timeout.
    Deadline,
    /// The policy does not retry this failure.
    NotAllowed,
}

impl RetrySkipped {
    fn label(self) -> &'static str {
        match self {
            Self::BodyTooLarge => "body_too_large",
            Self::NotReplayable => "not_replayable",
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
                "Failed or late attempts after which there was no retry, by reason; the limit is counted apart",
            ),
        }
    }
}

impl PolicyRetries {
    /// Counts in series with these labels.
    pub fn new(families: &RetryFamilies, labels: LabelSet) -> Self {
        Self {
            families: families.clone(),
            labels,
            series: OnceCell::new(),
        }
    }

    fn series(&self) -> &RetrySeries {
        let Self {
            families, labels, ..
        } = self;
        self.series.get_or_init(|| RetrySeries {
            requests: families.requests.get(labels.clone()),
            successes: families.successes.get(labels.clone()),
            overflow: families.overflow.get(labels.clone()),
            limit_exceeded: families.limit_exceeded.get(labels.clone()),
        })
    }
}

impl CountRetries for PolicyRetries {
    fn begun(&self) {
        self.series();
    }

    fn retried(&self) {
        self.series().requests.incr();
    }

    fn saved(&self) {
        self.series().successes.incr();
    }

    fn overflowed(&self) {
        self.series().overflow.incr();
    }

    fn limited(&self) {
        self.series().limit_exceeded.incr();
    }

    fn skipped(&self, why: RetrySkipped) {
        let reason = Labels::new().with("reason", why.label());
        self.families.skipped.get(self.labels.and(reason)).incr();
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
