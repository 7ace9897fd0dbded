//! Rounds of a thread's event loop.

use std::cell::Cell;

thread_local! {
    static ROUND: Cell<u32> = const { Cell::new(0) };
}

/// Notes that the calling thread is about to ask the system what has come. To be called by its runtime.
pub fn begin_round() {
    ROUND.set(ROUND.get().wrapping_add(1));
}

/// The number of the present round. What the runtime knows of sockets is as old as its beginning, or newer: a runtime may
/// ask without telling.
pub(crate) fn round() -> u32 {
    ROUND.get()
}
