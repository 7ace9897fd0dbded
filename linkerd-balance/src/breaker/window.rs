//! The success rate of the recent past.

use std::time::Duration;
use tokio::time::Instant;

/// Counts of successes within a sliding window of ten buckets.
#[derive(Clone, Debug)]
pub struct SuccessWindow {
    /// The length of a bucket.
    width: Duration,
    start: Instant,
    /// The number of the latest bucket, counted from `start`.
    latest: u64,
    buckets: [Counts; BUCKETS],
    sum: Counts,
}

/// Responses, and the successes among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Successes.
    pub successes: u32,
    /// All responses.
    pub total: u32,
}

impl SuccessWindow {
    /// An empty window of this length.
    pub fn new(length: Duration, now: Instant) -> Self {
        Self {
            // A bucket without length would never be reached.
            width: (length / BUCKETS as u32).max(Duration::from_nanos(1)),
            start: now,
            latest: 0,
            buckets: [Counts::default(); BUCKETS],
            sum: Counts::default(),
        }
    }

    /// Counts a response. Returns the counts of the window with it.
    pub fn add(&mut self, success: bool, now: Instant) -> Counts {
        self.advance(now);
        let bucket = &mut self.buckets[(self.latest % BUCKETS as u64) as usize];
        for counts in [bucket, &mut self.sum] {
            counts.successes = counts.successes.saturating_add(success.into());
            counts.total = counts.total.saturating_add(1);
        }
        self.sum
    }

    /// The counts of the window.
    pub fn counts(&mut self, now: Instant) -> Counts {
        self.advance(now);
        self.sum
    }

    /// Clears the buckets that are no longer in the window.
    fn advance(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.start).as_nanos();
        let present = u64::try_from(elapsed / self.width.as_nanos()).unwrap_or(u64::MAX);
        let passed = present.saturating_sub(self.latest).min(BUCKETS as u64);
        for n in 1..=passed {
            let index = (self.latest.wrapping_add(n) % BUCKETS as u64) as usize;
            let left = std::mem::take(&mut self.buckets[index]);
            self.sum.successes = self.sum.successes.saturating_sub(left.successes);
            self.sum.total = self.sum.total.saturating_sub(left.total);
        }
        if passed == BUCKETS as u64 {
            // The loop has cleared all buckets, wherever it began.
            self.sum = Counts::default();
        }
        self.latest = self.latest.max(present);
    }
}

impl Counts {
    /// Whether the share of successes is below `threshold`, in units of 0.01 %.
    pub fn is_below(self, threshold: u16) -> bool {
        u64::from(self.successes) * 10_000 < u64::from(self.total) * u64::from(threshold)
    }
}

/// The number of buckets in a window.
const BUCKETS: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn responses_leave_bucket_by_bucket() {
        let start = Instant::now();
        let mut window = SuccessWindow::new(10 * SECOND, start);
        window.add(false, start);
        window.add(true, start + 5 * SECOND);
        let at = |window: &mut SuccessWindow, seconds| {
            let counts = window.counts(start + seconds * SECOND);
            (counts.successes, counts.total)
        };
        assert_eq!(at(&mut window, 9), (1, 2));
        assert_eq!(at(&mut window, 10), (1, 1));
        assert_eq!(at(&mut window, 14), (1, 1));
        assert_eq!(at(&mut window, 15), (0, 0));
        window.add(true, start + 1_000 * SECOND);
        assert_eq!(at(&mut window, 1_000), (1, 1));
    }

    #[test]
    fn a_rate_at_the_threshold_is_not_below_it() {
        let counts = Counts {
            successes: 9_950,
            total: 10_000,
        };
        assert!(!counts.is_below(9_950) && counts.is_below(9_951));
        assert!(!Counts::default().is_below(10_000), "nothing is no failure");
    }

    proptest! {
        /// The counts equal those of the responses in the last ten buckets.
        #[test]
        fn counts_are_those_of_the_window(events in prop::collection::vec((0u64..3_000, any::<bool>()), 1..200)) {
            let start = Instant::now();
            let mut window = SuccessWindow::new(10 * SECOND, start);
            let (mut elapsed, mut seen) = (0u64, VecDeque::new());
            for (gap, success) in events {
                elapsed += gap;
                seen.push_back((elapsed / 1_000, success));
                let counts = window.add(success, start + Duration::from_millis(elapsed));
                seen.retain(|(bucket, _)| bucket + 10 > elapsed / 1_000);
                prop_assert_eq!(counts.total as usize, seen.len());
                let successes = seen.iter().filter(|(_, success)| *success).count();
                prop_assert_eq!(counts.successes as usize, successes);
            }
        }
    }
}
