//! Reads and flushes of a connection, reported to the layers above its codec.

use std::{
    io,
    sync::atomic::{AtomicBool, AtomicI32, AtomicU16, Ordering::Relaxed},
};

/// Reads and flushes of a connection, as observed below its codec.
#[derive(Debug, Default)]
pub struct Activity {
    was_read: AtomicBool,
    was_written: AtomicBool,
    is_unflushed: AtomicBool,
    /// [`PASS`], [`HOLD_AFTER_FLUSH`], [`HOLD`], or the status of a refusal that was held back.
    refusal: AtomicU16,
    /// The failure that was noticed beside the codec, or 0.
    errno: AtomicI32,
}

/// Writes are passed on.
const PASS: u16 = 0;
/// Writes are passed on until the next flush.
const HOLD_AFTER_FLUSH: u16 = 1;
/// No request is being answered: a write is the codec's own refusal of a head, and is held back.
const HOLD: u16 = 2;

impl Activity {
    /// Whether bytes were read since [`Activity::forget_reads`].
    pub fn was_read(&self) -> bool {
        self.was_read.load(Relaxed)
    }

    /// Forgets all reads so far.
    pub fn forget_reads(&self) {
        self.was_read.store(false, Relaxed);
    }

    /// Whether bytes were written since the last call.
    pub fn take_written(&self) -> bool {
        self.was_written.swap(false, Relaxed)
    }

    /// Notes the failure of the connection, which no read or write returns any more.
    pub fn note_failure(&self, error: &io::Error) {
        self.errno.store(error.raw_os_error().unwrap_or(0), Relaxed);
    }

    /// The failure that was noted.
    pub(super) fn errno(&self) -> Option<i32> {
        Some(self.errno.load(Relaxed)).filter(|errno| *errno != 0)
    }

    /// Whether all writes were flushed. A codec flushes when it has nothing left to write.
    pub fn is_flushed(&self) -> bool {
        !self.is_unflushed.load(Relaxed)
    }

    /// Holds the codec's own refusals back from now on, in favour of an answer with the proxy's headers.
    pub fn hold_refusals(&self) {
        self.refusal.store(HOLD, Relaxed);
    }

    /// Passes writes on: a request is being answered.
    pub fn pass_writes(&self) {
        self.refusal.store(PASS, Relaxed);
    }

    /// Holds refusals back as soon as the answer to the last request is flushed.
    pub fn hold_refusals_after_flush(&self) {
        if self.refusal.load(Relaxed) == PASS {
            self.refusal.store(HOLD_AFTER_FLUSH, Relaxed);
        }
    }

    /// The status of a refusal that was held back, if there was one. Writes are passed on afterwards.
    pub fn take_refusal(&self) -> Option<u16> {
        Some(self.refusal.swap(PASS, Relaxed)).filter(|state| *state > HOLD)
    }

    /// Whether a write is held back; its status is kept.
    #[inline]
    pub(super) fn holds_back(&self, write: &[u8]) -> bool {
        let state = self.refusal.load(Relaxed);
        if state < HOLD {
            return false;
        }
        if state == HOLD {
            self.refusal.store(status_of(write), Relaxed);
        }
        true
    }

    /// Whether a refusal was held back.
    #[inline]
    pub(super) fn has_held_back(&self) -> bool {
        self.refusal.load(Relaxed) > HOLD
    }

    #[inline]
    pub(super) fn note_flush(&self) {
        self.set_unflushed(false);
        if self.refusal.load(Relaxed) == HOLD_AFTER_FLUSH {
            self.refusal.store(HOLD, Relaxed);
        }
    }

    #[inline]
    pub(super) fn note_read(&self) {
        self.was_read.store(true, Relaxed);
    }

    #[inline]
    pub(super) fn note_write(&self) {
        self.was_written.store(true, Relaxed);
        self.set_unflushed(true);
    }

    #[inline]
    fn set_unflushed(&self, unflushed: bool) {
        self.is_unflushed.store(unflushed, Relaxed);
    }
}

/// The status of an HTTP/1 response head; 400 for anything else.
fn status_of(head: &[u8]) -> u16 {
    let status = head
        .get(9..12)
        .and_then(|status| std::str::from_utf8(status).ok());
    let status = status.and_then(|status| status.parse().ok());
    status.filter(|status| *status > HOLD).unwrap_or(400)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_held_back_and_no_answer_to_a_request() {
        let activity = Activity::default();
        assert!(
            !activity.holds_back(b"HTTP/1.1 200 OK"),
            "it is not watched for them"
        );
        activity.hold_refusals();
        activity.pass_writes();
        assert!(!activity.holds_back(b"HTTP/1.1 200 OK"));
        activity.hold_refusals_after_flush();
        assert!(!activity.holds_back(b"the rest of its body"));
        activity.note_flush();
        assert!(activity.holds_back(b"HTTP/1.1 431 Request Header Fields Too Large"));
        assert!(activity.holds_back(b"more of it") && activity.has_held_back());
        assert_eq!(activity.take_refusal(), Some(431));
        assert_eq!(activity.take_refusal(), None);
        assert!(!activity.holds_back(b"the proxy's own answer"));
    }

    #[test]
    fn a_pipelined_request_is_answered_before_the_flush() {
        let activity = Activity::default();
        activity.hold_refusals();
        activity.pass_writes();
        activity.hold_refusals_after_flush();
        activity.pass_writes();
        activity.note_flush();
        assert!(!activity.holds_back(b"HTTP/1.1 200 OK"));
        assert_eq!(activity.take_refusal(), None);
    }
}
