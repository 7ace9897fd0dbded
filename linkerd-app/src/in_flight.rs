//! The limit of requests in flight, in either direction.

use linkerd_proxy_core::{Error, Reason};
use std::{cell::Cell, rc::Rc};

/// Requests in flight on one worker, and the most that there may be. Its copies share them.
#[derive(Clone, Debug)]
pub struct InFlightLimit(Rc<State>);

#[derive(Debug)]
struct State {
    count: Cell<usize>,
    limit: usize,
}

/// A request in flight, until it is dropped.
#[derive(Debug)]
pub struct InFlight(Rc<State>);

impl InFlightLimit {
    /// At most `limit` requests.
    pub fn new(limit: usize) -> Self {
        let count = Cell::new(0);
        Self(Rc::new(State { count, limit }))
    }

    /// Counts a request as in flight, unless there are too many.
    pub fn begin(&self) -> Result<InFlight, Error> {
        let count = self.0.count.get();
        if count >= self.0.limit {
            return Err(Reason::InFlightLimit.into());
        }
        self.0.count.set(count + 1);
        Ok(InFlight(self.0.clone()))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.count.get()
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.count.set(self.0.count.get() - 1);
    }
}

/// A worker's share of a limit of the whole proxy.
pub fn share(limit: usize, workers: usize) -> usize {
    limit.div_ceil(workers.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_makes_room() {
        let limit = InFlightLimit::new(1);
        let first = limit.begin().unwrap();
        assert_eq!(limit.begin().unwrap_err().reason(), Reason::InFlightLimit);
        drop(first);
        assert!(limit.begin().is_ok());
        assert_eq!(limit.count(), 0);
    }

    #[test]
    fn shares_make_up_the_whole() {
        assert_eq!([share(10, 3), share(10, 1), share(10, 0)], [4, 10, 10]);
    }
}
