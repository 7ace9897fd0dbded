//! A quantile of recent latencies.

use std::time::Duration;
use tokio::time::Instant;

/// The latency that a given share of the recent requests did not exceed.
///
/// Latencies are counted in buckets whose bounds grow by an eighth, so that an estimate is too long by an eighth at most and
/// the memory is bounded. Counts are halved each half-life: an estimate follows a service that has turned slower or faster
/// within a minute.
#[derive(Clone, Debug)]
pub struct LatencyQuantile {
    quantile: f64,
    /// Counts of samples by bucket of latency.
    counts: Box<[f32]>,
    total: f32,
    /// Samples since the last calculation of the estimate.
    fresh: u32,
    estimate: Duration,
    /// The time up to which the counts have been halved.
    aged: Instant,
}

impl LatencyQuantile {
    /// The quantile of this share of the requests, above 0 and below 1.
    pub fn new(quantile: f64, now: Instant) -> Self {
        Self {
            quantile: quantile.clamp(0.0, MAX_QUANTILE),
            counts: vec![0.0; BUCKETS].into(),
            total: 0.0,
            fresh: 0,
            estimate: Duration::ZERO,
            aged: now,
        }
    }

    /// Records the latency of a request.
    pub fn observe(&mut self, latency: Duration, now: Instant) {
        self.age(now);
        self.counts[bucket(latency)] += 1.0;
        self.total += 1.0;
        self.fresh += 1;
        if self.fresh >= REFRESH {
            self.refresh();
        }
    }

    /// The latency that the share did not exceed, rounded up. `None` if there are too few recent requests.
    pub fn estimate(&mut self, now: Instant) -> Option<Duration> {
        self.age(now);
        if self.samples() < self.required() {
            return None;
        }
        if self.estimate.is_zero() {
            self.refresh();
        }
        Some(self.estimate)
    }

    /// The recent requests; older ones count less.
    pub fn samples(&self) -> f64 {
        f64::from(self.total)
    }

    /// The least number of requests for an estimate: some of them have to be beyond the quantile.
    pub fn required(&self) -> f64 {
        (BEYOND / (1.0 - self.quantile)).max(MIN_SAMPLES)
    }

    fn refresh(&mut self) {
        self.fresh = 0;
        let beyond = self.samples() * (1.0 - self.quantile);
        let mut sum = 0.0;
        let above = |count: &f32| {
            sum += f64::from(*count);
            sum > beyond
        };
        let found = self.counts.iter().rposition(above);
        self.estimate = bound(found.unwrap_or_default());
    }

    fn age(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.aged);
        if elapsed < HALF_LIFE {
            return;
        }
        let half_lives = elapsed.as_secs() / HALF_LIFE.as_secs();
        let half_lives = u32::try_from(half_lives).unwrap_or(u32::MAX);
        let weight = 0.5f32.powi(i32::try_from(half_lives).unwrap_or(i32::MAX));
        self.counts.iter_mut().for_each(|count| *count *= weight);
        self.total *= weight;
        self.aged += HALF_LIFE.saturating_mul(half_lives);
        self.refresh();
    }
}

/// The bucket of a latency: eight for each power of two of microseconds.
fn bucket(latency: Duration) -> usize {
    let micros = latency.as_micros().min(MAX_MICROS);
    let micros = u32::try_from(micros).expect("it is below the greatest");
    if micros < 8 {
        return micros as usize;
    }
    let octave = micros.ilog2();
    let eighth = (micros >> (octave - 3)) & 7;
    ((octave - 2) * 8 + eighth) as usize
}

/// The upper bound of a bucket.
fn bound(bucket: usize) -> Duration {
    let micros = match bucket {
        0..8 => bucket as u64 + 1,
        _ => (bucket as u64 % 8 + 9) << (bucket / 8 - 1),
    };
    Duration::from_micros(micros)
}

/// A longer latency counts in the last bucket: 18 minutes.
const MAX_MICROS: u128 = (1 << 30) - 1;

const BUCKETS: usize = 28 * 8;

/// Keeps the number of required requests finite.
const MAX_QUANTILE: f64 = 0.9999;

/// The least number of recent requests beyond the quantile for an estimate.
const BEYOND: f64 = 3.0;

/// The least number of recent requests for an estimate, for any quantile.
const MIN_SAMPLES: f64 = 30.0;

/// The number of samples after which the estimate is calculated again, from all buckets.
const REFRESH: u32 = 16;

/// Long enough for a hundred requests of a route with few requests, short enough to follow a service that changes.
const HALF_LIFE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn estimate(quantile: f64, latencies: impl IntoIterator<Item = Duration>) -> Option<Duration> {
        let now = Instant::now();
        let mut estimated = LatencyQuantile::new(quantile, now);
        for latency in latencies {
            estimated.observe(latency, now);
        }
        estimated.refresh();
        estimated.estimate(now)
    }

    /// Whether an estimate matches a latency; buckets may round it up by an eighth.
    fn is_of(estimate: Option<Duration>, latency: Duration) -> bool {
        let bound = latency + latency / 8 + Duration::from_micros(1);
        estimate.is_some_and(|estimate| (latency..=bound).contains(&estimate))
    }

    #[test]
    fn the_share_of_the_requests_is_below_the_estimate() {
        let latencies = || (1..=1000).map(MS);
        for (quantile, expected) in [(0.5, 501), (0.9, 901), (0.95, 951), (0.99, 991)] {
            let estimate = estimate(quantile, latencies());
            assert!(is_of(estimate, MS(expected)), "{quantile}: {estimate:?}");
        }
    }

    #[test]
    fn too_few_requests_have_no_estimate() {
        for (quantile, enough) in [(0.5, 30), (0.9, 31), (0.95, 61), (0.99, 301)] {
            let of = |count| estimate(quantile, vec![MS(5); count]);
            assert_eq!(of(enough - 2), None, "{quantile}");
            assert!(is_of(of(enough), MS(5)), "{quantile}");
        }
    }

    #[test]
    fn old_requests_are_forgotten() {
        let start = Instant::now();
        let mut estimated = LatencyQuantile::new(0.9, start);
        for _ in 0..1000 {
            estimated.observe(MS(500), start);
        }
        let later = start + 4 * HALF_LIFE;
        assert!(is_of(estimated.estimate(later), MS(500)));
        for _ in 0..1000 {
            estimated.observe(MS(2), later);
        }
        assert!(is_of(estimated.estimate(later), MS(2)));
        assert_eq!(estimated.estimate(later + 10 * HALF_LIFE), None);
        assert_eq!(estimated.estimate(later + 1_000_000 * HALF_LIFE), None);
    }

    #[test]
    fn every_latency_has_a_bucket_whose_bound_is_just_above_it() {
        let all = (0..2000).chain((10..63).map(|shift| (1 << shift) - 1));
        for micros in all.chain((10..63).map(|shift| 1 << shift)) {
            let latency = Duration::from_micros(micros);
            let bucket = bucket(latency);
            assert!(bucket < BUCKETS);
            if u128::from(micros) < MAX_MICROS {
                assert!(bound(bucket) > latency, "{latency:?}");
                assert!(bound(bucket) <= latency + latency / 8 + Duration::from_micros(1));
            }
        }
    }

    proptest! {
        #[test]
        fn an_estimate_is_between_the_least_and_the_greatest(
            latencies in prop::collection::vec(0u64..10_000_000, 100..300),
            quantile in 0.0f64..0.97,
        ) {
            let micros = Duration::from_micros;
            let found = estimate(quantile, latencies.iter().copied().map(micros)).unwrap();
            let greatest = micros(*latencies.iter().max().unwrap());
            prop_assert!(found >= micros(*latencies.iter().min().unwrap()));
            prop_assert!(found <= greatest + greatest / 8 + micros(1));
        }
    }
}
