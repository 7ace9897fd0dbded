//! When to stop waiting: the failfast state of a backend.

use std::time::Duration;
use tokio::time::Instant;

/// Whether requests may wait for an endpoint.
///
/// The first request that finds no endpoint starts the clock; when it runs out before any endpoint is ready, whoever
/// waits fails, and later requests fail at once until an endpoint is ready.
#[derive(Clone, Copy, Debug)]
pub struct Failfast {
    timeout: Duration,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nobody waits in vain.
    Open,
    /// Somebody has waited since then.
    Waiting(Instant),
    /// The wait was too long; requests fail since then.
    Shut(Instant),
}

impl Failfast {
    /// Nobody waits yet.
    pub fn new(timeout: Duration) -> Self {
        Self {
            timeout,
            state: State::Open,
        }
    }

    /// A request begins to wait. Returns when the wait ends at the latest.
    pub fn wait(&mut self, now: Instant) -> Instant {
        if self.state == State::Open {
            self.state = State::Waiting(now);
        }
        self.deadline().unwrap_or(now)
    }

    /// An endpoint is ready. Returns how long requests were refused, if they were.
    pub fn open(&mut self, now: Instant) -> Option<Duration> {
        let shut = match self.state {
            State::Shut(since) => Some(now.saturating_duration_since(since)),
            _ => None,
        };
        self.state = State::Open;
        shut
    }

    /// Nobody waits any more.
    pub fn idle(&mut self) {
        if matches!(self.state, State::Waiting(_)) {
            self.state = State::Open;
        }
    }

    /// Whether the wait is over now; if so, requests are refused from now on.
    pub fn expire(&mut self, now: Instant) -> bool {
        let expired = self.deadline().is_some_and(|deadline| now >= deadline);
        if expired {
            self.state = State::Shut(now);
        }
        expired
    }

    /// When the wait ends, if anybody waits.
    pub fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Waiting(since) => Some(since + self.timeout),
            _ => None,
        }
    }

    /// Whether requests are refused.
    pub fn is_shut(&self) -> bool {
        matches!(self.state, State::Shut(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_first_waiter_starts_the_clock() {
        let start = Instant::now();
        let mut failfast = Failfast::new(3 * SECOND);
        assert_eq!(failfast.wait(start), start + 3 * SECOND);
        assert_eq!(failfast.wait(start + SECOND), start + 3 * SECOND);
        assert!(!failfast.expire(start + 2 * SECOND));
        assert!(failfast.expire(start + 3 * SECOND) && failfast.is_shut());
        assert_eq!(failfast.open(start + 5 * SECOND), Some(2 * SECOND));
        assert!(!failfast.is_shut());
    }

    #[test]
    fn a_wait_that_ends_in_time_stops_the_clock() {
        let start = Instant::now();
        let mut failfast = Failfast::new(3 * SECOND);
        failfast.wait(start);
        failfast.idle();
        assert_eq!(failfast.deadline(), None);
        assert_eq!(failfast.wait(start + 9 * SECOND), start + 12 * SECOND);
        assert_eq!(failfast.open(start + 10 * SECOND), None);
    }
}
