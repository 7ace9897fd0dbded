//! Metric types: counters, gauges, histograms.

use super::{Exposition, MetricKind};
use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// A metric type: how its handles are made, summed and written.
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
        out.line(name, "", labels, None, *sum);
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
        out.line(name, "", labels, None, *sum);
    }
}

/// How a histogram's values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistogramUnit {
    /// Observed in nanoseconds, written in whole milliseconds.
    Milliseconds,
    /// Observed in nanoseconds, written in seconds.
    Seconds,
    /// Observed and written in bytes.
    Bytes,
}

/// The buckets of a histogram: upper bounds as observed, with their text in `le`.
#[derive(Clone, Copy, Debug)]
pub struct HistogramBounds {
    /// Ascending upper bounds.
    pub buckets: &'static [(u64, &'static str)],
    /// How the values are written.
    pub unit: HistogramUnit,
}

macro_rules! millis {
    ($($ms:literal)+) => { &[$(($ms * 1_000_000, stringify!($ms))),+] };
}

/// The buckets of the incumbent's `*_latency_ms` families.
pub const LATENCY_MS: &HistogramBounds = &HistogramBounds {
    buckets: millis!(1 2 3 4 5 10 20 30 40 50 100 200 300 400 500 1000 2000 3000 4000 5000 10000 20000 30000 40000 50000),
    unit: HistogramUnit::Milliseconds,
};

/// The buckets of frame sizes.
pub const BYTES: &HistogramBounds = &HistogramBounds {
    buckets: &[(128, "128.0"), (1024, "1024.0"), (10240, "10240.0")],
    unit: HistogramUnit::Bytes,
};

/// Counts observations in buckets. Belongs to one thread.
#[derive(Clone, Debug)]
pub struct Histogram {
    bounds: &'static HistogramBounds,
    /// The sum, a count for each bound, and one for values above all bounds.
    cells: Arc<[AtomicU64]>,
}

impl Histogram {
    /// Counts a value, in the unit of the bounds.
    #[inline]
    pub fn observe(&self, value: u64) {
        let buckets = self.bounds.buckets;
        let bucket = buckets.iter().position(|(bound, _)| value <= *bound);
        let count = &self.cells[1 + bucket.unwrap_or(buckets.len())];
        count.store(count.load(Relaxed) + 1, Relaxed);
        let sum = &self.cells[0];
        sum.store(sum.load(Relaxed).wrapping_add(value), Relaxed);
    }

    /// Counts a duration.
    #[inline]
    pub fn observe_duration(&self, duration: Duration) {
        self.observe(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    }
}

/// The sum of a histogram's handles: their cells, or nothing without a handle.
#[derive(Debug, Default)]
pub struct HistogramSum(Vec<u64>);

impl Clone for HistogramSum {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }

    /// Keeps the allocation: a scrape sums one series after the other.
    fn clone_from(&mut self, other: &Self) {
        self.0.clone_from(&other.0);
    }
}

impl Metric for Histogram {
    type Params = &'static HistogramBounds;
    type Sum = HistogramSum;
    const KIND: MetricKind = MetricKind::Histogram;

    fn new(bounds: &'static HistogramBounds) -> Self {
        let cells = 1 + bounds.buckets.len() + 1;
        Self {
            bounds,
            cells: (0..cells).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    fn add_to(&self, total: &mut HistogramSum) {
        total.0.resize(self.cells.len(), 0);
        for (total, cell) in total.0.iter_mut().zip(&*self.cells) {
            *total = total.wrapping_add(cell.load(Relaxed));
        }
    }

    fn is_last(&self) -> bool {
        Arc::strong_count(&self.cells) == 1
    }

    fn write(
        total: &HistogramSum,
        bounds: &'static HistogramBounds,
        name: &str,
        labels: &str,
        out: &mut Exposition<'_>,
    ) {
        let mut cells = total.0.iter().copied();
        let sum = cells.next().unwrap_or(0);
        let mut seen = 0;
        for (_, le) in bounds.buckets {
            seen += cells.next().unwrap_or(0);
            out.line(name, "_bucket", labels, Some(le), seen);
        }
        seen += cells.next().unwrap_or(0);
        out.line(name, "_bucket", labels, Some("+Inf"), seen);
        out.line(name, "_count", labels, None, seen);
        match bounds.unit {
            HistogramUnit::Milliseconds => out.line(name, "_sum", labels, None, sum / 1_000_000),
            HistogramUnit::Seconds => {
                let seconds = sum as f64 / 1e9;
                out.line(name, "_sum", labels, None, format_args!("{seconds:?}"));
            }
            HistogramUnit::Bytes => {
                out.line(name, "_sum", labels, None, format_args!("{sum}.0"));
            }
        }
    }
}
