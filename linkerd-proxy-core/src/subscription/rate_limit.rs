//! Rate limit: an action happens at most once per interval.

use std::time::Duration;
use tokio::time::Instant;

/// Permits one action per interval, and counts the refused ones.
#[derive(Clone, Debug)]
pub struct RateLimit {
    interval: Duration,
    last: Option<Instant>,
    refused: u64,
}

impl RateLimit {
    /// At most one action per `interval`.
    pub fn new(interval: Duration) -> Self {
        Self {
            interval,
            last: None,
            refused: 0,
        }
    }

    /// The number of refused actions since the last permitted one, if an action is permitted now.
    pub fn take(&mut self, now: Instant) -> Option<u64> {
        if self.ready_at().is_some_and(|at| now < at) {
            self.refused += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.refused))
    }

    /// Time of the next permitted action. `None`: at once.
    pub fn ready_at(&self) -> Option<Instant> {
        self.last.map(|last| last + self.interval)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_per_interval() {
        let start = Instant::now();
        let mut rate_limit = RateLimit::new(Duration::from_secs(10));
        assert_eq!(rate_limit.take(start), Some(0));
        assert_eq!(rate_limit.take(start + Duration::from_secs(1)), None);
        assert_eq!(rate_limit.take(start + Duration::from_secs(9)), None);
        assert_eq!(rate_limit.take(start + Duration::from_secs(10)), Some(2));
    }
}
