//! The buckets of histograms, and the figures of a series.

/// The unit of a histogram's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistogramUnit {
    /// Observed in nanoseconds, written in whole milliseconds.
    Milliseconds,
    /// Observed in nanoseconds, written in seconds.
    Seconds,
    /// Observed and written in bytes.
    Bytes,
}

impl HistogramUnit {
    /// The number of observed units in one written unit.
    pub(super) const fn divisor(self) -> f64 {
        match self {
            Self::Milliseconds => 1e6,
            Self::Seconds => 1e9,
            Self::Bytes => 1.0,
        }
    }
}

/// The buckets of a histogram: upper bounds as observed, with their text in `le`.
#[derive(Clone, Copy, Debug)]
pub struct HistogramBounds {
    /// Ascending upper bounds.
    pub buckets: &'static [(u64, &'static str)],
    /// The unit of the values.
    pub unit: HistogramUnit,
}

impl HistogramBounds {
    /// The cells of a histogram: the sum, a count for each bound, and one for values above all bounds.
    pub(super) const fn cells(&self) -> usize {
        1 + self.buckets.len() + 1
    }
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

/// The figures of a series.
#[derive(Debug)]
pub(super) struct HistogramFigures<'a> {
    bounds: &'static HistogramBounds,
    cells: &'a [u64],
    native: Option<&'a [u64]>,
}

impl<'a> HistogramFigures<'a> {
    /// The figures from the cells of all bounds (none without a handle), and from the native buckets.
    pub(super) fn new(
        bounds: &'static HistogramBounds,
        cells: &'a [u64],
        native: Option<&'a [u64]>,
    ) -> Self {
        Self {
            bounds,
            cells,
            native,
        }
    }

    /// The sum of the values, as written.
    pub(super) fn sum(&self) -> f64 {
        let sum = self.cells.first().copied().unwrap_or(0);
        match self.bounds.unit {
            HistogramUnit::Milliseconds => (sum / 1_000_000) as f64,
            unit => sum as f64 / unit.divisor(),
        }
    }

    /// The number of values.
    pub(super) fn count(&self) -> u64 {
        self.cells.iter().skip(1).sum()
    }

    /// The upper bounds, each with the number of values up to it.
    pub(super) fn buckets(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let mut counts = self.cells.iter().skip(1);
        let mut seen = 0;
        let bounds = self.bounds.buckets.iter().map(|(_, le)| *le);
        bounds.chain(["+Inf"]).map(move |le| {
            seen += counts.next().copied().unwrap_or(0);
            (le, seen)
        })
    }

    /// The unit of the values.
    pub(super) fn unit(&self) -> HistogramUnit {
        self.bounds.unit
    }

    /// The counters of the native buckets, if there are any.
    pub(super) fn native(&self) -> Option<&'a [u64]> {
        self.native
    }
}
