//! Yields of the control thread, during long work, to the other threads of its core.
//!
//! A proxy has one core in most pods, which its worker and its control thread share. When the worker becomes ready while
//! the control thread runs, the kernel lets it wait for the end of a slice, up to 4 ms each time; a request whose worker
//! is woken for its head, its connection and its response waits three times. So the control thread yields the core
//! between pieces of long work. If no other thread is ready, that is one short system call.
//!
//! A priority does not help: a thread that has begun its slice keeps the core for a part of it whatever its weight, and
//! a busy proxy has to follow its control plane, too.
//!
//! **Bounds** a worker that is always busy runs for some milliseconds between two slices of this thread, which then
//! gets about a twentieth of the core, and never none.
//! which then has about a twentieth of the core, and never none.

use crate::transport::deliver;
use std::{thread, time::Duration};

/// Time that the thread has used: real time, which goes on while a test has paused tokio's clock.
#[expect(clippy::disallowed_types, reason = "it measures the core, no wait")]
type Instant = std::time::Instant;

/// The time since this thread last yielded.
#[derive(Debug)]
pub struct TimeSlice(Instant);

impl TimeSlice {
    /// A slice from now on.
    #[must_use]
    pub fn begin() -> Self {
        Self(Instant::now())
    }

    /// Yields the core to other threads, and begins a new slice, if this one is over.
    pub fn yield_if_over(&mut self) {
        if self.is_over(Instant::now()) {
            // Writes of this thread should not wait that long.
            deliver();
            thread::yield_now();
            *self = Self::begin();
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.0) >= SLICE
    }
}

/// Iterates, and yields the core to other threads whenever a slice is over.
pub fn with_yields<T>(items: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
    let mut slice = TimeSlice::begin();
    let checked = move |(index, item): (usize, T)| {
        if index % ITEMS_PER_CHECK == ITEMS_PER_CHECK - 1 {
            slice.yield_if_over();
        }
        item
    };
    items.into_iter().enumerate().map(checked)
}

/// The longest delay of a request each time that its worker needs the core. A busy worker then keeps the core for some
/// milliseconds: with shorter slices, a large scrape of a busy proxy would need too many of them.
const SLICE: Duration = Duration::from_micros(200);

/// Items between two readings of the clock. An item takes some microseconds at most.
const ITEMS_PER_CHECK: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_over_after_its_time_and_not_before() {
        let slice = TimeSlice::begin();
        assert!(!slice.is_over(slice.0));
        assert!(!slice.is_over(slice.0 + SLICE / 2));
        assert!(slice.is_over(slice.0 + SLICE));
    }

    #[test]
    fn the_core_is_yielded_only_when_the_slice_is_over() {
        let long_ago = Instant::now() - SLICE;
        let mut slice = TimeSlice(long_ago);
        slice.yield_if_over();
        assert!(slice.0 > long_ago);
    }

    #[test]
    fn nothing_is_left_out_and_the_order_stays() {
        let items: Vec<_> = with_yields(0..1000).collect();
        assert_eq!(items, (0..1000).collect::<Vec<_>>());
    }
}
