//! Slow start: a new endpoint gets its share gradually.

use rand::{Rng, RngExt};
use std::time::Duration;
use tokio::time::Instant;

/// Passes a new endpoint over with a probability that falls during a window.
///
/// Applies to the share of choices, not as a factor on the load: of two idle endpoints the one with a little more load gets no
/// request, so a factor would not be gradual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowStart {
    window: Duration,
}

impl SlowStart {
    /// A slow start that ends after `window`.
    pub fn new(window: Duration) -> Self {
        Self { window }
    }

    /// The share of its choices that an endpoint gets when it joined the others at `joined`.
    pub fn share(&self, joined: Instant, now: Instant) -> f64 {
        let elapsed = now.saturating_duration_since(joined);
        match elapsed < self.window {
            true => (elapsed.as_secs_f64() / self.window.as_secs_f64()).max(MIN_SHARE),
            false => 1.0,
        }
    }

    /// Whether a chosen endpoint is passed over.
    pub fn passes_over(&self, joined: Instant, now: Instant, rng: &mut impl Rng) -> bool {
        let share = self.share(joined, now);
        share < 1.0 && rng.random::<f64>() >= share
    }
}

/// The share at the beginning: without any request an endpoint would never get warm.
const MIN_SHARE: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{SeedableRng, rngs::SmallRng};

    #[test]
    fn the_share_grows_with_the_window() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let slow = SlowStart::new(10 * second);
        let shares = [0, 1, 5, 9, 10, 100].map(|n| slow.share(start, start + n * second));
        assert_eq!(shares, [0.1, 0.1, 0.5, 0.9, 1.0, 1.0]);
        let mut rng = SmallRng::seed_from_u64(1);
        let mut passed_over = |n: u32| {
            let draws =
                (0..10_000).filter(|_| slow.passes_over(start, start + n * second, &mut rng));
            draws.count()
        };
        assert!((8_800..9_200).contains(&passed_over(0)));
        assert!((4_800..5_200).contains(&passed_over(5)));
        assert_eq!(passed_over(10), 0);
    }
}
