//! Histograms.

use super::{
    Exposition, Metric, MetricKind,
    figures::{HistogramBounds, HistogramFigures},
    native::{NATIVE_CELLS, native_cell},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// The buckets of a new histogram.
#[derive(Clone, Copy, Debug)]
pub struct HistogramParams {
    /// The classic buckets.
    pub(super) bounds: &'static HistogramBounds,
    /// Whether the histogram has native buckets, too.
    pub(super) is_native: bool,
}

impl From<&'static HistogramBounds> for HistogramParams {
    /// Without native buckets.
    fn from(bounds: &'static HistogramBounds) -> Self {
        Self {
            bounds,
            is_native: false,
        }
    }
}

/// Counts observations in buckets. Belongs to one thread.
#[derive(Clone, Debug)]
pub struct Histogram {
    bounds: &'static HistogramBounds,
    /// The sum, a count for each bound, one for values above all bounds, and the native buckets if there are any.
    cells: Arc<[AtomicU64]>,
}

impl Histogram {
    /// Counts a value, in the unit of the bounds.
    #[inline]
    pub fn observe(&self, value: u64) {
        let buckets = self.bounds.buckets;
        let bucket = buckets.iter().position(|(bound, _)| value <= *bound);
        incr(&self.cells[1 + bucket.unwrap_or(buckets.len())]);
        let sum = &self.cells[0];
        sum.store(sum.load(Relaxed).wrapping_add(value), Relaxed);
        let classic = self.bounds.cells();
        if self.cells.len() > classic {
            incr(&self.cells[classic + native_cell(self.bounds.unit, value)]);
        }
    }

    /// Counts a duration.
    #[inline]
    pub fn observe_duration(&self, duration: Duration) {
        self.observe(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    }
}

/// Only the owning thread writes; see the module.
fn incr(cell: &AtomicU64) {
    cell.store(cell.load(Relaxed) + 1, Relaxed);
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
    type Params = HistogramParams;
    type Sum = HistogramSum;
    const KIND: MetricKind = MetricKind::Histogram;

    fn new(params: HistogramParams) -> Self {
        let native = if params.is_native { NATIVE_CELLS } else { 0 };
        let cells = params.bounds.cells() + native;
        Self {
            bounds: params.bounds,
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
        params: HistogramParams,
        name: &str,
        labels: &str,
        out: &mut Exposition<'_>,
    ) {
        let bounds = params.bounds;
        let (classic, native) = match total.0.split_at_checked(bounds.cells()) {
            Some((classic, native)) => (classic, Some(native)),
            None => (&[][..], None),
        };
        let native = native.filter(|native| !native.is_empty());
        let figures = HistogramFigures::new(bounds, classic, native);
        out.histogram(name, labels, &figures);
    }
}
