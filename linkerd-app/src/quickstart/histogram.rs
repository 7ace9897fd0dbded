//! Percentiles of latencies, to within five percent.

use std::time::Duration;

/// Counts latencies in buckets, each a tenth wider than the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Histogram {
    buckets: [u32; BUCKETS],
    count: u64,
}

impl Histogram {
    pub(super) fn new() -> Self {
        Self {
            buckets: [0; BUCKETS],
            count: 0,
        }
    }

    pub(super) fn observe(&mut self, latency: Duration) {
        let steps = (latency.as_secs_f64() / FIRST).ln() / GROWTH.ln();
        // Casts of floats saturate: shorter values are in the first bucket, longer ones in the last.
        let bucket = (steps.ceil() as usize).min(BUCKETS - 1);
        self.buckets[bucket] = self.buckets[bucket].saturating_add(1);
        self.count += 1;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (bucket, more) in self.buckets.iter_mut().zip(other.buckets) {
            *bucket = bucket.saturating_add(more);
        }
        self.count += other.count;
    }

    /// The latency that a share of all latencies, such as 0.99, does not exceed. `None` without any.
    pub(super) fn percentile(&self, share: f64) -> Option<Duration> {
        let rank = ((self.count as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let bucket = self.buckets.iter().position(|count| {
            seen += u64::from(*count);
            seen >= rank
        })?;
        // The middle of the bucket, as its ends differ by ten percent.
        let middle = FIRST * GROWTH.powf(bucket as f64 - 0.5);
        Some(Duration::from_secs_f64(middle))
    }
}

/// The upper bound of the first bucket, in seconds: no network is faster.
const FIRST: f64 = 20e-6;

const GROWTH: f64 = 1.1;

/// Enough for 20 µs × 1.1^159, which is more than a minute.
const BUCKETS: usize = 160;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn without_latencies_there_are_no_percentiles() {
        assert_eq!(Histogram::new().percentile(0.5), None);
    }

    #[test]
    fn percentiles_split_what_was_seen() {
        let mut histogram = Histogram::new();
        (0..98).for_each(|_| histogram.observe(MS(3)));
        let mut slow = Histogram::new();
        (0..2).for_each(|_| slow.observe(MS(60)));
        histogram.merge(&slow);
        let near = |share, expected: f64| {
            let ms = histogram.percentile(share).unwrap().as_secs_f64() * 1000.0;
            assert!((ms / expected - 1.0).abs() < 0.06, "{share}: {ms}");
        };
        near(0.0, 3.0);
        near(0.5, 3.0);
        near(0.98, 3.0);
        near(0.99, 60.0);
        near(1.0, 60.0);
    }

    #[test]
    fn extremes_are_kept_in_the_outermost_buckets() {
        let mut histogram = Histogram::new();
        histogram.observe(Duration::ZERO);
        assert!(histogram.percentile(0.5) < Some(MS(1)));
        histogram.observe(Duration::MAX);
        assert!(histogram.percentile(1.0) > Some(MS(60_000)));
    }

    proptest! {
        #[test]
        fn percentiles_are_near_the_true_ones(
            mut micros in prop::collection::vec(50u64..10_000_000, 1..200),
            share in 0.01f64..1.0,
        ) {
            let mut histogram = Histogram::new();
            micros.iter().for_each(|n| histogram.observe(Duration::from_micros(*n)));
            micros.sort_unstable();
            let rank = (micros.len() as f64 * share).ceil() as usize;
            let expected = micros[rank.max(1) - 1] as f64 / 1e6;
            let found = histogram.percentile(share).unwrap().as_secs_f64();
            prop_assert!((found / expected - 1.0).abs() < 0.06, "{found} for {expected}");
        }
    }
}
