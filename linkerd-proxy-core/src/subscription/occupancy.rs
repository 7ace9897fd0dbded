//! Eviction of a cached entry: the decision, without the cache.

use std::time::Duration;
use tokio::time::Instant;

/// Leases and idle time of an entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Occupancy {
    /// The number of leases.
    pub(super) leases: usize,
    /// Time when the last lease was dropped.
    pub(super) idle_since: Option<Instant>,
    /// The state cannot be fetched again at present.
    pub(super) pinned: bool,
    /// The entry was evicted.
    pub(super) gone: bool,
}

/// The next step of an entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    /// Stays until something changes.
    Stay,
    /// Stays until this time, unless something changes.
    StayUntil(Instant),
    /// Is to be removed.
    Leave,
    /// Has been removed.
    Gone,
}

impl Occupancy {
    /// An entry with its first lease.
    pub(super) fn leased() -> Self {
        Self {
            leases: 1,
            idle_since: None,
            pinned: false,
            gone: false,
        }
    }

    pub(super) fn lease(&mut self) {
        self.leases += 1;
        self.idle_since = None;
    }

    /// Drops a lease. `true` if the entry is idle now.
    pub(super) fn release(&mut self, now: Instant) -> bool {
        self.leases = self.leases.saturating_sub(1);
        if self.leases == 0 {
            self.idle_since = Some(now);
        }
        self.leases == 0
    }

    pub(super) fn verdict(&self, now: Instant, idle_timeout: Duration) -> Verdict {
        match self.idle_since {
            _ if self.gone => Verdict::Gone,
            Some(since) if !self.pinned => {
                if now.saturating_duration_since(since) >= idle_timeout {
                    Verdict::Leave
                } else {
                    Verdict::StayUntil(since + idle_timeout)
                }
            }
            _ => Verdict::Stay,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(5);

    #[test]
    fn leaves_when_idle_for_long_enough() {
        let now = Instant::now();
        let mut entry = Occupancy::leased();
        assert_eq!(entry.verdict(now + 2 * IDLE, IDLE), Verdict::Stay);
        assert!(entry.release(now));
        assert_eq!(entry.verdict(now, IDLE), Verdict::StayUntil(now + IDLE));
        assert_eq!(entry.verdict(now + IDLE, IDLE), Verdict::Leave);
    }

    #[test]
    fn a_new_lease_keeps_it() {
        let now = Instant::now();
        let mut entry = Occupancy::leased();
        entry.lease();
        assert!(!entry.release(now));
        assert!(entry.release(now));
        entry.lease();
        assert_eq!(entry.verdict(now + IDLE, IDLE), Verdict::Stay);
    }

    #[test]
    fn stays_while_pinned() {
        let now = Instant::now();
        let mut entry = Occupancy::leased();
        entry.release(now);
        entry.pinned = true;
        assert_eq!(entry.verdict(now + 100 * IDLE, IDLE), Verdict::Stay);
        entry.pinned = false;
        assert_eq!(entry.verdict(now + 100 * IDLE, IDLE), Verdict::Leave);
    }
}
