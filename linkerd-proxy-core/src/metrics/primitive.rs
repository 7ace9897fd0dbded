//! Counters, and the trait of all metric types.

use super::{Exposition, MetricKind};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// A metric type: makes, sums and writes its handles.
pub trait Metric: Clone {
    /// Parameters of a new handle; a family holds them.
    type Params: Copy + Send + Sync;
    /// The sum of the handles of a series.
    type Sum: Clone + Default + Send;
    /// The type in the exposition format.
    const KIND: MetricKind;
    /// The value of a series with several handles.
    const AGGREGATION: Aggregation = Aggregation::Sum;

    /// A new handle.
    fn new(params: Self::Params) -> Self;
    /// Adds this handle's count to the series' sum.
    fn add_to(&self, sum: &mut Self::Sum);
    /// Whether this is the only clone of its handle.
    fn is_last(&self) -> bool;
    /// Writes the lines of the series.
    fn write(
        sum: &Self::Sum,
        params: Self::Params,
        name: &str,
        labels: &str,
        out: &mut Exposition<'_>,
    );
}

/// The value of a series whose handles belong to several workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregation {
    /// The sum of the handles.
    Sum,
    /// The maximum of the handles.
    Maximum,
    /// The maximum of the handles, with those that were dropped.
    Latest,
}

/// Counts upwards. Belongs to one thread.
#[derive(Clone, Debug)]
pub struct Counter(Arc<AtomicU64>);

impl Counter {
    /// Adds one.
    #[inline]
    pub fn incr(&self) {
        self.add(1);
    }

    /// Adds `n`.
    #[inline]
    pub fn add(&self, n: u64) {
        // Only the owning thread writes, so no read-modify-write is needed; see the module.
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// The count of this handle.
    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl Metric for Counter {
    type Params = ();
    type Sum = u64;
    const KIND: MetricKind = MetricKind::Counter;

    fn new((): ()) -> Self {
        Self(Arc::default())
    }

    fn add_to(&self, sum: &mut u64) {
        *sum = sum.wrapping_add(self.value());
    }

    fn is_last(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    fn write(sum: &u64, (): (), name: &str, labels: &str, out: &mut Exposition<'_>) {
        out.value(name, labels, *sum);
    }
}
