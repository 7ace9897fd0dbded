//! Families of hedges: `outbound_{http,grpc}_route_hedge_*`.

use linkerd_proxy_core::metrics::{Counter, Family, LabelSet, Labels, Registry, RegistryStyle};
use std::cell::OnceCell;

/// The families of the hedges of one kind of route.
#[derive(Clone, Debug)]
pub struct HedgeFamilies {
    requests: Family<Counter>,
    successes: Family<Counter>,
    skipped: Family<Counter>,
}

/// Counts the hedges of a route. Its series are made for the first hedge.
#[derive(Debug)]
pub struct HedgeCounts {
    families: HedgeFamilies,
    labels: LabelSet,
    series: OnceCell<HedgeSeries>,
}

#[derive(Debug)]
struct HedgeSeries {
    requests: Counter,
    successes: Counter,
}

/// The reason for which a slow request was not hedged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HedgeSkipped {
    /// The request's body turned out to be larger than the kept bytes.
    BodyTooLarge,
    /// The request's body is known to be too large or broke off, or the request may upgrade its connection.
    NotReplayable,
    /// The request's body is still being read.
    RequestUnfinished,
    /// Retries and hedges are too large a share of requests.
    Budget,
    /// No backend took the hedge.
    NoBackend,
}

impl HedgeSkipped {
    fn label(self) -> &'static str {
        match self {
            Self::BodyTooLarge => "body_too_large",
            Self::NotReplayable => "not_replayable",
            Self::RequestUnfinished => "request_unfinished",
            Self::Budget => "budget",
            Self::NoBackend => "no_backend",
        }
    }
}

impl HedgeFamilies {
    pub(super) fn register(registry: &Registry, names: &HedgeNames) -> Self {
        let counter = |name, help| registry.counter(RegistryStyle::OpenMetrics, name, help);
        Self {
            requests: counter(
                names.requests,
                "Requests sent once more as their response took long",
            ),
            successes: counter(
                names.successes,
                "Hedges whose response came before that of the first attempt",
            ),
            skipped: counter(
                names.skipped,
                "Requests whose response took long and that were not sent once more, by reason",
            ),
        }
    }
}

impl HedgeCounts {
    /// Counts in series with these labels.
    pub fn new(families: &HedgeFamilies, labels: LabelSet) -> Self {
        Self {
            families: families.clone(),
            labels,
            series: OnceCell::new(),
        }
    }

    /// Counts a hedge.
    pub fn sent(&self) {
        self.series().requests.incr();
    }

    /// Counts a hedge whose response is the request's.
    pub fn won(&self) {
        self.series().successes.incr();
    }

    /// Counts a hedge that is not made.
    pub fn skipped(&self, why: HedgeSkipped) {
        let reason = Labels::new().with("reason", why.label());
        self.families.skipped.get(self.labels.and(reason)).incr();
    }

    fn series(&self) -> &HedgeSeries {
        let Self {
            families, labels, ..
        } = self;
        self.series.get_or_init(|| HedgeSeries {
            requests: families.requests.get(labels.clone()),
            successes: families.successes.get(labels.clone()),
        })
    }
}

/// The names of these families.
pub(super) struct HedgeNames {
    pub(super) requests: &'static str,
    pub(super) successes: &'static str,
    pub(super) skipped: &'static str,
}

macro_rules! hedge_names {
    ($prefix:literal) => {
        $crate::metrics::hedges::HedgeNames {
            requests: concat!($prefix, "_hedge_requests_total"),
            successes: concat!($prefix, "_hedge_successes_total"),
            skipped: concat!($prefix, "_hedge_skipped_total"),
        }
    };
}

pub(super) use hedge_names;
