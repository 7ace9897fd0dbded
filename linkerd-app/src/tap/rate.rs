//! The rate at which a tap takes requests.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Counts the requests of a second, for all workers. One word: the second in the upper half, the count in the lower.
#[derive(Debug)]
pub struct RequestRate {
    limit: u32,
    window: AtomicU64,
}

impl RequestRate {
    /// At most `limit` requests in a second.
    pub fn new(limit: u32) -> Self {
        Self {
            limit,
            window: AtomicU64::new(0),
        }
    }

    /// Counts a request in the second at `elapsed` since the tap began; `false` if that second has its limit.
    pub fn admit(&self, elapsed: Duration) -> bool {
        // The second wraps after 136 years.
        let second = elapsed.as_secs() as u32;
        let next = |window: u64| {
            let (began, count) = ((window >> 32) as u32, window as u32);
            let count = if began == second { count } else { 0 };
            (count < self.limit).then(|| u64::from(second) << 32 | u64::from(count + 1))
        };
        let window = &self.window;
        window
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_has_the_same_number_of_places() {
        let rate = RequestRate::new(2);
        let admitted = |ms| rate.admit(Duration::from_millis(ms));
        let found = [0, 1, 2, 999, 1000, 1500, 1999, 5000].map(admitted);
        assert_eq!(found, [true, true, false, false, true, true, false, true]);
    }

    #[test]
    fn a_rate_of_nothing_admits_nothing() {
        assert!(!RequestRate::new(0).admit(Duration::ZERO));
    }
}
