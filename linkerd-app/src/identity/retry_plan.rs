//! The times of further requests for a certificate after a failed one. Pure.

use linkerd_proxy_core::{Backoff, tls::RefreshBounds};
use rand::Rng;
use std::time::{Duration, SystemTime};

/// The pauses after failed requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct RetryPlan {
    refresh: RefreshBounds,
    /// The pause after the first failure.
    first: Duration,
}

impl RetryPlan {
    /// A plan for certificates of this lifetime: the first pause is a part of it.
    pub(super) fn new(refresh: RefreshBounds, lifetime: Option<Duration>) -> Self {
        let part = lifetime.map_or(FIRST_RETRY, |lifetime| lifetime / PARTS);
        Self {
            refresh,
            first: part.clamp(SHORTEST_RETRY, FIRST_RETRY),
        }
    }

    /// The pause without a valid certificate, for which connections wait. Pauses grow to the shortest time between two
    /// renewals.
    pub(super) fn without_certificate(&self, failures: u32, rng: &mut impl Rng) -> Duration {
        let longest = self.refresh.min.max(FIRST_RETRY);
        let backoff = Backoff::new(self.first, longest, JITTER).expect("its bounds are in order");
        backoff.delay(failures.saturating_sub(1), rng)
    }

    /// The pause with a certificate that is valid: as between renewals, but shorter than the rest of its validity.
    pub(super) fn before_expiry(&self, until: SystemTime, now: SystemTime) -> Duration {
        let next = self.refresh.next(Some(until), now);
        let left = until.duration_since(now).unwrap_or_default();
        let pause = match next < left {
            true => next,
            false => left.mul_f64(REST),
        };
        pause.max(self.first)
    }
}

/// The first pause if the lifetime of certificates is not known, and the longest first pause.
const FIRST_RETRY: Duration = Duration::from_millis(100);
/// The shortest pause: a controller that refuses gets no more than 500 requests a second.
const SHORTEST_RETRY: Duration = Duration::from_millis(2);
/// The first pause is a fifth of the lifetime, so that several requests fit into it.
const PARTS: u32 = 5;
/// The part of the remaining validity after which a request is repeated, like that of a renewal.
const REST: f64 = 0.7;
const JITTER: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{SeedableRng, rngs::SmallRng};

    const MILLIS: fn(u64) -> Duration = Duration::from_millis;

    fn plan(min: Duration, lifetime: Option<Duration>) -> RetryPlan {
        let max = Duration::from_secs(86_400);
        RetryPlan::new(RefreshBounds { min, max }, lifetime)
    }

    #[test]
    fn the_first_pause_is_a_part_of_the_lifetime() {
        let mut rng = SmallRng::seed_from_u64(1);
        for (lifetime, expected) in [
            (None, MILLIS(100)),
            (Some(MILLIS(20)), MILLIS(4)),
            (Some(MILLIS(1)), MILLIS(2)),
            (Some(MILLIS(400)), MILLIS(80)),
            (Some(MILLIS(86_400_000)), MILLIS(100)),
        ] {
            let plan = plan(MILLIS(10_000), lifetime);
            let pause = plan.without_certificate(1, &mut rng);
            let near = expected.mul_f64(0.85)..=expected.mul_f64(1.15);
            assert!(near.contains(&pause), "{lifetime:?}: {pause:?}");
            let last = plan.without_certificate(30, &mut rng);
            assert!(last > MILLIS(8_500) && last < MILLIS(11_500), "{last:?}");
        }
    }

    #[test]
    fn a_certificate_is_requested_again_before_it_expires() {
        let now = SystemTime::UNIX_EPOCH + MILLIS(1_000_000_000);
        let pause = |min, lifetime, left| {
            let plan = plan(MILLIS(min), Some(MILLIS(lifetime)));
            plan.before_expiry(now + MILLIS(left), now)
        };
        assert_eq!(pause(10_000, 86_400_000, 100_000), MILLIS(70_000));
        assert_eq!(pause(10_000, 86_400_000, 12_000), MILLIS(10_000));
        assert_eq!(pause(10_000, 86_400_000, 5_000), MILLIS(3_500));
        assert_eq!(pause(10_000, 86_400_000, 10), MILLIS(100));
        assert_eq!(pause(10_000, 20, 10), MILLIS(7));
        assert_eq!(pause(0, 20, 1), MILLIS(4));
    }
}
