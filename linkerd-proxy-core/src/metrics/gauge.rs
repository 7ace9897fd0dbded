//! Gauges, and the value of a series with several handles.

use super::{
    Exposition, MetricKind,
    primitive::{Aggregation, Metric},
};
use std::{
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
};

/// Goes up and down. Belongs to one thread. `R` is the rule by which a scrape aggregates the handles of a series.
#[derive(Clone, Debug)]
pub struct Gauge<R = SumOfHandles> {
    value: Arc<AtomicI64>,
    rule: PhantomData<R>,
}

/// A gauge of something that each worker has for itself, such as its view of a set: a series has the greatest value of its
/// handles. A dropped gauge counts as 0.
pub type MaxGauge = Gauge<MaxOfHandles>;

/// A gauge of a time or a setting: a series has the greatest value of its handles, and keeps it after they are dropped.
pub type LatestGauge = Gauge<LatestOfHandles>;

/// The rule by which a scrape aggregates the handles of a gauge's series.
pub trait GaugeRule: Clone + 'static {
    /// The rule's name in the documentation.
    const AGGREGATION: Aggregation;

    /// Adds the value of a handle to the value of its series. A dropped handle has no owner.
    fn add(value: i64, is_dropped: bool, total: &mut i64);
}

/// The sum of the handles; a dropped one counts as 0.
#[derive(Clone, Debug)]
pub enum SumOfHandles {}

/// The maximum of the handles; a dropped one counts as 0.
#[derive(Clone, Debug)]
pub enum MaxOfHandles {}

/// The maximum of the handles, with those that were dropped.
#[derive(Clone, Debug)]
pub enum LatestOfHandles {}

impl<R> Gauge<R> {
    /// Adds one.
    #[inline]
    pub fn incr(&self) {
        self.set(self.value() + 1);
    }

    /// Subtracts one.
    #[inline]
    pub fn decr(&self) {
        self.set(self.value() - 1);
    }

    /// Sets the value.
    #[inline]
    pub fn set(&self, value: i64) {
        // Only the owning thread writes, so no read-modify-write is needed; see the module `metrics`.
        self.value.store(value, Relaxed);
    }

    /// The value of this handle.
    pub fn value(&self) -> i64 {
        self.value.load(Relaxed)
    }
}

impl<R: GaugeRule> Metric for Gauge<R> {
    type Params = ();
    type Sum = i64;
    const KIND: MetricKind = MetricKind::Gauge;
    const AGGREGATION: Aggregation = R::AGGREGATION;

    fn new((): ()) -> Self {
        Self {
            value: Arc::default(),
            rule: PhantomData,
        }
    }

    fn add_to(&self, sum: &mut i64) {
        R::add(self.value(), self.is_last(), sum);
    }

    fn is_last(&self) -> bool {
        Arc::strong_count(&self.value) == 1
    }

    fn write(sum: &i64, (): (), name: &str, labels: &str, out: &mut Exposition<'_>) {
        out.value(name, labels, *sum);
    }
}

impl GaugeRule for SumOfHandles {
    const AGGREGATION: Aggregation = Aggregation::Sum;

    fn add(value: i64, is_dropped: bool, total: &mut i64) {
        if !is_dropped {
            *total += value;
        }
    }
}

impl GaugeRule for MaxOfHandles {
    const AGGREGATION: Aggregation = Aggregation::Maximum;

    fn add(value: i64, is_dropped: bool, total: &mut i64) {
        if !is_dropped {
            *total = value.max(*total);
        }
    }
}

impl GaugeRule for LatestOfHandles {
    const AGGREGATION: Aggregation = Aggregation::Latest;

    fn add(value: i64, _: bool, total: &mut i64) {
        *total = value.max(*total);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Family, Labels, Registry, RegistryStyle};
    use std::time::Duration;
    use tokio::time::Instant;

    /// The values of a series of two handles, of 7 and 5: with both, without the first, and without any.
    fn values<R: GaugeRule + Send + Sync>(
        family: impl Fn(&Registry) -> Family<Gauge<R>>,
    ) -> [i64; 3] {
        let registry = Registry::new();
        let family = family(&registry);
        let handles = [7, 5].map(|value| {
            let handle = family.get(Labels::new());
            handle.set(value);
            handle
        });
        let value = || {
            let text = registry.render(Duration::from_secs(600), Instant::now());
            let line = text.lines().find_map(|line| line.strip_prefix("x "));
            line.unwrap().parse().unwrap()
        };
        let [first, second] = handles;
        let both = value();
        drop(first);
        let one = value();
        drop(second);
        [both, one, value()]
    }

    #[test]
    fn workers_are_summed_or_the_greatest_counts() {
        let (style, help) = (RegistryStyle::OpenMetrics, "X");
        assert_eq!(values(|all| all.gauge(style, "x", help)), [12, 5, 0]);
        assert_eq!(values(|all| all.max_gauge(style, "x", help)), [7, 5, 0]);
        assert_eq!(values(|all| all.latest_gauge(style, "x", help)), [7, 7, 7]);
    }
}
