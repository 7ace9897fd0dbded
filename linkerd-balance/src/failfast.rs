//! The failfast state of a backend: how long requests may wait.

use std::time::Duration;
use tokio::time::Instant;

/// Whether requests may wait for an endpoint.
///
/// The first request that finds no endpoint starts the clock. When it runs out before any endpoint is ready, all waiting
/// requests fail, and later requests fail at once until an endpoint is ready.
#[derive(Clone, Copy, Debug)]
pub struct Failfast {
    timeout: Duration,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No request waits.
    Open,
    /// Requests have waited since then.
    Waiting(Instant),
    /// The wait was too long; requests fail since then.
    Shut(Instant),
}

impl Failfast {
    /// No request waits yet.
    pub fn new(timeout: Duration) -> Self {
        Self {
            timeout,
            state: State::Open,
        }
    }

    /// A request begins to wait. Returns the latest end of its wait.
    pub fn wait(&mut self, now: Instant) -> Instant {
        if self.state == State::Open {
            self.state = State::Waiting(now);
        }
        self.deadline().unwrap_or(now)
    }

    /// An endpoint is ready. Returns the time for which requests were refused, if they were.
    pub fn open(&mut self, now: Instant) -> Option<Duration> {
        let shut = match self.state {
            State::Shut(since) => Some(now.saturating_duration_since(since)),
            _ => None,
        };
        self.state = State::Open;
        shut
    }

    /// No request waits any more.
    pub fn idle(&mut self) {
        if matches!(self.state, State::Waiting(_)) {
            self.state = State::Open;
        }
    }

    /// Ends the wait if it is over: requests are refused from now on. Returns its length.
    pub fn expire(&mut self, now: Instant) -> Option<Duration> {
        let expired = self.deadline().is_some_and(|deadline| now >= deadline);
        expired.then(|| self.give_up(now)).flatten()
    }

    /// Ends the wait before its time, as there is nothing to wait for: requests are refused from now on. Returns its length.
    pub fn give_up(&mut self, now: Instant) -> Option<Duration> {
        let State::Waiting(since) = self.state else {
            return None;
        };
        self.state = State::Shut(now);
        Some(now.saturating_duration_since(since))
    }

    /// The end of the wait, if a request waits.
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
        assert_eq!(failfast.expire(start + 2 * SECOND), None);
        assert_eq!(failfast.expire(start + 3 * SECOND), Some(3 * SECOND));
        assert!(failfast.is_shut());
        assert_eq!(failfast.open(start + 5 * SECOND), Some(2 * SECOND));
        assert!(!failfast.is_shut());
    }

    #[test]
    fn a_wait_for_nothing_is_given_up() {
        let start = Instant::now();
        let mut failfast = Failfast::new(3 * SECOND);
        assert_eq!(failfast.give_up(start), None, "no request waits");
        failfast.wait(start);
        assert_eq!(failfast.give_up(start + SECOND), Some(SECOND));
        assert!(failfast.is_shut());
        assert_eq!(failfast.give_up(start), None, "it is shut already");
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
