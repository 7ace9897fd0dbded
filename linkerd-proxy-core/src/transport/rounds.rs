//! Rounds of a thread's event loop.

use std::cell::Cell;

thread_local! {
    static ROUND: Cell<u32> = const { Cell::new(0) };
}

/// Begins a round. A runtime must call this before its thread polls the system for events.
pub fn begin_round() {
    ROUND.set(ROUND.get().wrapping_add(1));
}

/// The number of the current round. The runtime's knowledge of sockets is as old as the start of the round, or newer: a
/// runtime may also poll during the round.
pub(crate) fn round() -> u32 {
    ROUND.get()
}
