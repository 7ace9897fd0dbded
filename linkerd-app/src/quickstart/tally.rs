//! Results of the requests, by backend: of the last seconds, and in total.

use super::histogram::Histogram;
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// The result of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// The backend that responded; `None` if the proxy itself did.
    pub(super) backend: Option<String>,
    pub(super) latency: Duration,
    /// The cause of a failure.
    pub(super) failure: Option<String>,
}

/// The results of all requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    backends: BTreeMap<String, Series>,
    nobody: Series,
    last_failure: Option<String>,
    /// The requests without a result yet.
    open: u64,
}

/// The requests of one backend.
#[derive(Clone, Debug, Default)]
pub(super) struct Series {
    /// Since the beginning.
    pub(super) total: Slice,
    /// The past seconds, latest first, up to [`WINDOW`].
    seconds: VecDeque<Slice>,
    /// The current second.
    current: Slice,
}

/// The requests of a period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) requests: u64,
    pub(super) failed: u64,
    pub(super) latencies: Histogram,
}

impl Tally {
    /// Counts a request that is being made.
    pub(super) fn begin(&mut self) {
        self.open += 1;
    }

    /// Counts the result of a request that has begun.
    pub(super) fn record(&mut self, outcome: Outcome) {
        let Outcome {
            backend,
            latency,
            failure,
        } = outcome;
        self.open = self.open.saturating_sub(1);
        let series = match backend {
            // More names appear only if the backends were replaced.
            Some(name)
                if self.backends.len() < MAX_BACKENDS || self.backends.contains_key(&name) =>
            {
                self.backends.entry(name).or_default()
            }
            _ => &mut self.nobody,
        };
        for slice in [&mut series.total, &mut series.current] {
            slice.requests += 1;
            slice.failed += u64::from(failure.is_some());
            slice.latencies.observe(latency);
        }
        self.last_failure = failure.or(self.last_failure.take());
    }

    /// Ends a second.
    pub(super) fn second(&mut self) {
        for series in self.backends.values_mut().chain([&mut self.nobody]) {
            series
                .seconds
                .push_front(std::mem::take(&mut series.current));
            series.seconds.truncate(WINDOW);
        }
    }

    /// The requests that a backend answered.
    pub(super) fn backend(&self, name: &str) -> Option<&Series> {
        self.backends.get(name)
    }

    /// Requests without a backend, answered by the proxy itself.
    pub(super) fn nobody(&self) -> &Series {
        &self.nobody
    }

    /// All requests of the last second.
    pub(super) fn last(&self) -> Slice {
        self.sum(|series| series.last())
    }

    /// The requests without a result, if they are more than those that got one within the last second: an outage, in
    /// which the proxy holds them for an endpoint to come back.
    pub(super) fn waiting(&self) -> Option<u64> {
        (self.open > self.last().requests).then_some(self.open)
    }

    /// All requests.
    pub(super) fn total(&self) -> Slice {
        self.sum(|series| series.total.clone())
    }

    /// The cause of the last failure.
    pub(super) fn last_failure(&self) -> Option<&str> {
        self.last_failure.as_deref()
    }

    fn sum(&self, of: impl Fn(&Series) -> Slice) -> Slice {
        let all = self.backends.values().chain([&self.nobody]);
        all.map(of).fold(Slice::default(), Slice::and)
    }
}

impl Series {
    /// The last past second.
    pub(super) fn last(&self) -> Slice {
        self.seconds.front().cloned().unwrap_or_default()
    }

    /// The last past seconds.
    pub(super) fn recent(&self) -> Slice {
        self.seconds
            .iter()
            .cloned()
            .fold(Slice::default(), Slice::and)
    }
}

impl Slice {
    /// The percentage of requests that succeeded. `None` if there were none.
    pub(super) fn success(&self) -> Option<f64> {
        let share = (self.requests - self.failed) as f64 / self.requests as f64;
        (self.requests > 0).then_some(share * 100.0)
    }

    fn and(mut self, other: Self) -> Self {
        self.requests += other.requests;
        self.failed += other.failed;
        self.latencies.merge(&other.latencies);
        self
    }
}

impl Default for Slice {
    fn default() -> Self {
        Self {
            requests: 0,
            failed: 0,
            latencies: Histogram::new(),
        }
    }
}

/// Long enough for useful percentiles, short enough to show the effect of a change.
const WINDOW: usize = 10;

const MAX_BACKENDS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(backend: &str, failure: Option<&str>) -> Outcome {
        Outcome {
            backend: (!backend.is_empty()).then(|| backend.to_owned()),
            latency: Duration::from_millis(3),
            failure: failure.map(str::to_owned),
        }
    }

    #[test]
    fn requests_wait_when_more_are_open_than_answered() {
        let mut tally = Tally::default();
        (0..5).for_each(|_| tally.begin());
        (0..3).for_each(|_| tally.record(outcome("a", None)));
        tally.second();
        assert_eq!(tally.waiting(), None);
        tally.second();
        assert_eq!(tally.waiting(), Some(2));
        (0..2).for_each(|_| tally.record(outcome("a", None)));
        assert_eq!(tally.waiting(), None);
    }

    #[test]
    fn requests_are_counted_by_backend_and_second() {
        let mut tally = Tally::default();
        tally.record(outcome("a", None));
        tally.record(outcome("a", None));
        tally.record(outcome("b", Some("status 500")));
        assert_eq!(tally.last().requests, 0, "the second is not over");
        tally.second();
        tally.record(outcome("", Some("refused")));
        let a = tally.backend("a").unwrap();
        assert_eq!((a.last().requests, a.recent().success()), (2, Some(100.0)));
        let b = tally.backend("b").unwrap();
        assert_eq!((b.total.requests, b.total.success()), (1, Some(0.0)));
        assert_eq!((tally.last().requests, tally.last().failed), (3, 1));
        assert_eq!((tally.total().requests, tally.total().failed), (4, 2));
        assert_eq!(tally.nobody().total.requests, 1);
        assert_eq!(tally.last_failure(), Some("refused"));
        assert!(tally.backend("c").is_none());
    }

    #[test]
    fn what_is_long_ago_is_only_in_the_total() {
        let mut tally = Tally::default();
        tally.record(outcome("a", None));
        (0..=WINDOW).for_each(|_| tally.second());
        let a = tally.backend("a").unwrap();
        assert_eq!((a.recent().requests, a.recent().success()), (0, None));
        assert_eq!(a.total.requests, 1);
    }
}
