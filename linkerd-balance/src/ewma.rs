//! Peak-EWMA: an estimate of an endpoint's latency, which rises at once and falls slowly.

use std::time::Duration;
use tokio::time::Instant;

/// An exponentially weighted moving average of round-trip times that jumps to peaks.
///
/// A sample above the estimate replaces it; a sample below moves it by the share of the decay time that has passed. An
/// estimate without samples decays towards zero, so that an endpoint that was slow once is tried again.
///
/// The estimate before the first sample is a guess, which any first sample replaces. When a guess decayed like a
/// measurement, a guess of 30 ms kept a busy endpoint of 1 ms above an idle one of 200 ms for ten seconds.
#[derive(Clone, Copy, Debug)]
pub struct PeakEwma {
    /// The estimate in seconds.
    estimate: f64,
    /// The decay time in seconds.
    decay: f64,
    at: Instant,
    is_guess: bool,
}

impl PeakEwma {
    /// An estimate with `default` as its guess. `decay` is the time constant.
    pub fn new(default: Duration, decay: Duration, now: Instant) -> Self {
        Self {
            estimate: default.as_secs_f64(),
            decay: decay.as_secs_f64().max(MIN_DECAY),
            at: now,
            is_guess: true,
        }
    }

    /// The estimate in seconds.
    pub fn estimate(&self, now: Instant) -> f64 {
        self.estimate * self.weight(now)
    }

    /// Whether nothing was measured yet.
    pub fn is_guess(&self) -> bool {
        self.is_guess
    }

    /// Takes a sample.
    pub fn observe(&mut self, sample: Duration, now: Instant) {
        let sample = sample.as_secs_f64();
        let weight = self.weight(now);
        self.estimate = if self.is_guess || sample > self.estimate * weight {
            sample
        } else {
            self.estimate * weight + sample * (1.0 - weight)
        };
        self.at = self.at.max(now);
        self.is_guess = false;
    }

    /// The weight of an old estimate.
    fn weight(&self, now: Instant) -> f64 {
        let elapsed = now.saturating_duration_since(self.at).as_secs_f64();
        let passed = elapsed / self.decay;
        if passed < SHORT {
            // Equal to eight digits, for a fifth of the cost: an endpoint in use was measured just now.
            return 1.0 - passed * (1.0 - passed / 2.0);
        }
        (-passed).exp()
    }
}

/// Keeps the weight a number if a control plane sends a decay of 0.
const MIN_DECAY: f64 = 1e-3;

/// The share of the decay time up to which two terms of the series are enough.
const SHORT: f64 = 4e-3;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DECAY: Duration = Duration::from_secs(10);
    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn rises_at_once_and_falls_slowly() {
        let start = Instant::now();
        let mut ewma = PeakEwma::new(MS(30), DECAY, start);
        ewma.observe(MS(500), start + MS(1));
        assert!((ewma.estimate(start + MS(1)) - 0.5).abs() < 1e-9);
        ewma.observe(MS(1), start + MS(101));
        assert!(ewma.estimate(start + MS(101)) > 0.49);
    }

    #[test]
    fn a_guess_yields_to_the_first_answer() {
        let start = Instant::now();
        let mut ewma = PeakEwma::new(MS(30), DECAY, start);
        ewma.observe(MS(1), start + MS(1));
        assert!((ewma.estimate(start + MS(1)) - 0.001).abs() < 1e-9);
        ewma.observe(MS(50), start + MS(51));
        ewma.observe(MS(1), start + MS(52));
        assert!(ewma.estimate(start + MS(52)) > 0.049, "a peak does not");
    }

    #[test]
    fn forgets_when_it_is_not_refreshed() {
        let start = Instant::now();
        let ewma = PeakEwma::new(MS(1000), DECAY, start);
        let after = ewma.estimate(start + DECAY);
        assert!((after - (-1.0f64).exp()).abs() < 1e-9);
    }

    #[test]
    fn short_times_decay_as_long_ones_do() {
        let start = Instant::now();
        let ewma = PeakEwma::new(MS(1000), DECAY, start);
        for ms in [0, 1, 10, 39, 40, 41, 100] {
            let exact = (-(ms as f64) / 10_000.0).exp();
            assert!((ewma.estimate(start + MS(ms)) - exact).abs() < 2e-8);
        }
    }

    proptest! {
        #[test]
        fn stays_between_zero_and_the_peak(samples in prop::collection::vec((0u64..100_000, 0u64..60_000), 1..50)) {
            let mut now = Instant::now();
            let mut ewma = PeakEwma::new(MS(30), DECAY, now);
            let peak = samples.iter().map(|s| s.0).max().unwrap_or(0).max(30) as f64 / 1000.0;
            for (sample, gap) in samples {
                now += MS(gap);
                ewma.observe(MS(sample), now);
                let estimate = ewma.estimate(now);
                prop_assert!(estimate >= 0.0 && estimate <= peak + 1e-9);
                prop_assert!(estimate >= MS(sample).as_secs_f64() - 1e-9);
            }
        }
    }
}
