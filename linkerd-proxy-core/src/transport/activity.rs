//! Reads and flushes of a connection, reported to the layers above its codec.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Reads and flushes of a connection, as observed below its codec.
#[derive(Debug, Default)]
pub struct Activity {
    was_read: AtomicBool,
    is_unflushed: AtomicBool,
}

impl Activity {
    /// Whether bytes were read since [`Activity::forget_reads`].
    pub fn was_read(&self) -> bool {
        self.was_read.load(Relaxed)
    }

    /// Forgets all reads so far.
    pub fn forget_reads(&self) {
        self.was_read.store(false, Relaxed);
    }

    /// Whether all writes were flushed. A codec flushes when it has nothing left to write.
    pub fn is_flushed(&self) -> bool {
        !self.is_unflushed.load(Relaxed)
    }

    #[inline]
    pub(super) fn note_read(&self) {
        self.was_read.store(true, Relaxed);
    }

    #[inline]
    pub(super) fn set_unflushed(&self, unflushed: bool) {
        self.is_unflushed.store(unflushed, Relaxed);
    }
}
