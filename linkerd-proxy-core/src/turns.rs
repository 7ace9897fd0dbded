//! Long work of the control thread, yielding to the other threads of its core.
//!
//! A proxy has one core in most pods, which its worker and its control thread share. When the worker has something to do
//! while the control thread is at work, the kernel lets it wait for the end of a slice, up to 4 ms each time; a request
//! that is woken for its head, its connection and its response waits three times. So the control thread offers the core
//! between pieces of what takes long. If nobody wants it, that is one short system call.
//!
//! A priority does not help: a thread that has begun its slice keeps the core for some of it whatever its weight is, and a
//! control plane that is not listened to is no better than requests that wait.
//!
//! **Bounds** if a worker is busy all the time, it has its slice of some milliseconds between two turns: this thread then
//! has about a twentieth of the core, and never none.

use crate::transport::deliver;
use std::{
    thread,
    time::{Duration, Instant},
};

/// Since when this thread has had the core.
#[derive(Debug)]
pub struct Turn(Instant);

impl Turn {
    /// It has it from now on.
    #[must_use]
    pub fn begin() -> Self {
        Self(Instant::now())
    }

    /// Offers the core to others, if this thread had it for a while.
    pub fn offer(&mut self) {
        if self.is_over(Instant::now()) {
            // What was written should not wait as long.
            deliver();
            thread::yield_now();
            *self = Self::begin();
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.0) >= TURN
    }
}

/// Iterates, and offers the core to others now and then.
pub fn in_turns<T>(items: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
    let mut turn = Turn::begin();
    let offer = move |(index, item): (usize, T)| {
        if index % LOOK_EVERY == LOOK_EVERY - 1 {
            turn.offer();
        }
        item
    };
    items.into_iter().enumerate().map(offer)
}

/// A request is delayed by this at most, each time that it needs the core. A worker that is not idle then keeps it for
/// some milliseconds: with shorter turns, a large scrape of a busy proxy would take too many of them.
const TURN: Duration = Duration::from_micros(200);

/// How many items come between two looks at the clock. None takes more than some microseconds.
const LOOK_EVERY: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_over_after_its_time_and_not_before() {
        let turn = Turn::begin();
        assert!(!turn.is_over(turn.0));
        assert!(!turn.is_over(turn.0 + TURN / 2));
        assert!(turn.is_over(turn.0 + TURN));
    }

    #[test]
    fn an_offer_begins_a_turn_only_when_the_last_one_is_over() {
        let long_ago = Instant::now() - TURN;
        let mut turn = Turn(long_ago);
        turn.offer();
        assert!(turn.0 > long_ago);
    }

    #[test]
    fn nothing_is_left_out_and_the_order_stays() {
        let items: Vec<_> = in_turns(0..1000).collect();
        assert_eq!(items, (0..1000).collect::<Vec<_>>());
    }
}
