//! Exponential backoff: the delay before another try.
//!
//! A pure type: the caller passes the random generator and does the waiting.

use rand::{Rng, RngExt};
use std::time::Duration;

/// The bounds of an exponential backoff.
///
/// Step *n* is `min(min * 2^n, max)`; up to `jitter` times the step is added at random, and the sum never exceeds
/// `max`. `LINKERD2_PROXY_*_EXP_BACKOFF_{MIN,MAX,JITTER}` and the client policy's failure accrual use it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    min: Duration,
    max: Duration,
    jitter: f64,
}

/// Invalid bounds of a backoff.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum InvalidBackoff {
    /// The first step is longer than the longest step.
    #[error("the minimum ({min:?}) must not exceed the maximum ({max:?})")]
    MinAboveMax {
        /// The first step.
        min: Duration,
        /// The longest step.
        max: Duration,
    },
    /// A backoff that never waits is a busy loop.
    #[error("the maximum must be longer than 0")]
    ZeroMax,
    /// Jitter is a share of the step.
    #[error("the jitter ({0}) must be between 0 and 100")]
    Jitter(f64),
}

impl Backoff {
    /// Checks the bounds.
    pub fn new(min: Duration, max: Duration, jitter: f64) -> Result<Self, InvalidBackoff> {
        if min > max {
            return Err(InvalidBackoff::MinAboveMax { min, max });
        }
        if max.is_zero() {
            return Err(InvalidBackoff::ZeroMax);
        }
        if !(0.0..=100.0).contains(&jitter) {
            return Err(InvalidBackoff::Jitter(jitter));
        }
        Ok(Self { min, max, jitter })
    }

    /// `delay`, raised or lowered to fit the bounds.
    pub fn clamp(&self, delay: Duration) -> Duration {
        delay.clamp(self.min, self.max)
    }

    /// The delay of step `n`, counted from 0, with jitter drawn from `rng`.
    pub fn delay(&self, n: u32, rng: &mut impl Rng) -> Duration {
        let base = 2u32
            .checked_pow(n)
            .and_then(|factor| self.min.checked_mul(factor))
            .map_or(self.max, |step| step.min(self.max));
        let extra = base.mul_f64(self.jitter * rng.random::<f64>());
        base.saturating_add(extra).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::{SeedableRng, rngs::StdRng};

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn doubles_up_to_the_maximum() {
        let backoff = Backoff::new(MS(100), MS(1000), 0.0).unwrap();
        let mut rng = StdRng::seed_from_u64(1);
        let delays: Vec<_> = (0..6).map(|n| backoff.delay(n, &mut rng)).collect();
        assert_eq!(
            delays,
            [MS(100), MS(200), MS(400), MS(800), MS(1000), MS(1000)]
        );
    }

    #[test]
    fn another_delay_is_kept_within_the_bounds() {
        let backoff = Backoff::new(MS(100), MS(1000), 0.0).unwrap();
        let clamped = [0, 500, 5_000].map(|ms| backoff.clamp(MS(ms)));
        assert_eq!(clamped, [MS(100), MS(500), MS(1000)]);
    }

    #[test]
    fn refuses_bounds_that_make_no_sense() {
        assert!(Backoff::new(MS(2), MS(1), 0.0).is_err());
        assert_eq!(
            Backoff::new(MS(0), MS(0), 0.0),
            Err(InvalidBackoff::ZeroMax)
        );
        assert!(Backoff::new(MS(1), MS(1), f64::NAN).is_err());
        assert!(Backoff::new(MS(1), MS(1), -0.1).is_err());
    }

    proptest! {
        #[test]
        fn stays_within_its_bounds(n in 0u32..1000, jitter in 0.0f64..100.0, seed: u64) {
            let backoff = Backoff::new(MS(100), MS(60_000), jitter).unwrap();
            let delay = backoff.delay(n, &mut StdRng::seed_from_u64(seed));
            prop_assert!(delay >= MS(100) && delay <= MS(60_000));
        }
    }
}
