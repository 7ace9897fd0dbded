//! The generic cell rate algorithm, as pure arithmetic: a rate with a burst of one second.

use std::{
    num::NonZeroU32,
    sync::atomic::{AtomicU64, Ordering},
};

/// A rate of requests; the requests of one second may come at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    per_second: NonZeroU32,
}

/// The requests that have passed: the time at which the next would be due at an even pace, in nanoseconds since the limiter
/// was created.
#[derive(Debug, Default)]
pub(super) struct Bucket(AtomicU64);

impl Rate {
    pub(super) fn new(per_second: NonZeroU32) -> Self {
        Self { per_second }
    }

    /// Requests per second.
    pub(super) fn per_second(self) -> NonZeroU32 {
        self.per_second
    }

    /// The due time after a request that passes `now`; `None` if the request comes too early.
    pub(super) fn next_due(self, due: u64, now: u64) -> Option<u64> {
        let rate = u64::from(self.per_second.get());
        let next = due.max(now) + SECOND / rate;
        // If the rate does not divide the second, the burst is as long as its intervals together.
        (next - now <= SECOND / rate * rate).then_some(next)
    }
}

impl Bucket {
    /// Whether a request may pass `now`; counted if it may.
    pub(super) fn admit(&self, rate: Rate, now: u64) -> bool {
        let next_due = |due| rate.next_due(due, now);
        let (set, read) = (Ordering::Relaxed, Ordering::Relaxed);
        self.0.fetch_update(set, read, next_due).is_ok()
    }

    /// Whether the bucket is in the same state as before any request.
    pub(super) fn is_full(&self, now: u64) -> bool {
        self.0.load(Ordering::Relaxed) <= now
    }
}

const SECOND: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rate(per_second: u32) -> Rate {
        Rate::new(NonZeroU32::new(per_second).unwrap())
    }

    #[test]
    fn a_burst_of_a_second_passes_and_then_the_rate() {
        for per_second in [1, 3, 7, 1000] {
            let (bucket, rate) = (Bucket::default(), rate(per_second));
            let start = 5 * SECOND;
            for _ in 0..per_second {
                assert!(bucket.admit(rate, start));
            }
            assert!(!bucket.admit(rate, start), "{per_second}");
            let later = start + SECOND / u64::from(per_second);
            assert!(bucket.admit(rate, later) && !bucket.admit(rate, later));
            assert!(!bucket.is_full(later) && bucket.is_full(later + SECOND));
        }
    }

    proptest! {
        #[test]
        fn no_window_lets_more_than_its_rate_and_one_burst_pass(
            per_second in 1u32..50, gaps in proptest::collection::vec(0u64..400, 1..200),
        ) {
            let (bucket, rate) = (Bucket::default(), rate(per_second));
            let (mut now, mut passed) = (0, Vec::new());
            for gap in gaps {
                now += gap * 1_000_000;
                if bucket.admit(rate, now) {
                    passed.push(now);
                }
            }
            for (index, start) in passed.iter().enumerate() {
                for (count, end) in passed[index..].iter().enumerate() {
                    let most = u64::from(per_second) + (end - start) / (SECOND / u64::from(per_second));
                    prop_assert!(count as u64 <= most);
                }
            }
        }
    }
}
