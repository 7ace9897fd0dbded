//! Counters and gauges, and the trait of all metric types.

use super::{Exposition, MetricKind};
use std::sync::{
    Arc,
    atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
};

/// A metric type: makes, sums and writes its handles.
pub trait Metric: Clone {
    /// Parameters of a new handle; a family holds them.
    type Params: Copy + Send + Sync;
    /// The sum of the handles of a series.
    type Sum: Clone + Default + Send;
    /// The type in the exposition format.
    const KIND: MetricKind;

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

/// Goes up and down. Belongs to one thread; a dropped gauge counts as 0.
#[derive(Clone, Debug)]
pub struct Gauge(Arc<AtomicI64>);

impl Gauge {
    /// Adds one.
    #[inline]
    pub fn incr(&self) {
        self.0.store(self.0.load(Relaxed) + 1, Relaxed);
    }

    /// Subtracts one.
    #[inline]
    pub fn decr(&self) {
        self.0.store(self.0.load(Relaxed) - 1, Relaxed);
    }

    /// Sets the value.
    #[inline]
    pub fn set(&self, value: i64) {
        self.0.store(value, Relaxed);
    }

    /// The value of this handle.
    pub fn value(&self) -> i64 {
        self.0.load(Relaxed)
    }
}

impl Metric for Gauge {
    type Params = ();
    type Sum = i64;
    const KIND: MetricKind = MetricKind::Gauge;

    fn new((): ()) -> Self {
        Self(Arc::default())
    }

    fn add_to(&self, sum: &mut i64) {
        // A gauge without an owner counts as 0.
        if !self.is_last() {
            *sum += self.value();
        }
    }

    fn is_last(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    fn write(sum: &i64, (): (), name: &str, labels: &str, out: &mut Exposition<'_>) {
        out.value(name, labels, *sum);
    }
}
