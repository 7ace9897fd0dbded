//! The wear of an endpoint's HTTP/2 connection.

use crate::{
    http::{
        FlowControl,
        merged::{Http2Server, SMALL},
    },
    limits,
};
use bytes::Bytes;
use http_body::Frame;
use std::{cell::Cell, rc::Rc};

/// Counts what h2 counts against a connection for its whole life, so that the connection is left in time.
///
/// Frames that cross a reset are nobody's fault, but h2 takes each for an error of the endpoint, and a small one for unread for
/// ever. A worn connection takes no other stream, and ends after those that it has.
pub(super) struct Wear {
    /// The server, with the small DATA frames that passed to h2.
    server: Rc<Http2Server>,
    /// Small DATA frames that streams have read.
    read: Cell<usize>,
    /// Streams that were dropped before their end.
    cancelled: Cell<usize>,
    /// How many unread frames or cancelled streams are too many.
    limit: usize,
}

impl Wear {
    /// A new connection to `server`, with these windows.
    pub(super) fn new(server: Rc<Http2Server>, windows: FlowControl) -> Self {
        // A half of h2's own limit, which is a half of the window.
        let limit = match windows {
            FlowControl::Fixed { connection, .. } => connection as usize / SMALL / 4,
            FlowControl::Adaptive => limits::HTTP2_WORN_AFTER,
        };
        Self {
            server,
            read: Cell::new(0),
            cancelled: Cell::new(0),
            limit: limit.clamp(1, limits::HTTP2_WORN_AFTER),
        }
    }

    /// A stream has read a frame.
    pub(super) fn read(&self, frame: &Frame<Bytes>) {
        if frame.data_ref().is_some_and(|data| data.len() < SMALL) {
            self.read.set(self.read.get() + 1);
        }
    }

    /// A stream was dropped before its end.
    pub(super) fn cancel(&self) {
        self.cancelled.set(self.cancelled.get() + 1);
    }

    /// The number of streams that were dropped before their end.
    pub(super) fn cancelled(&self) -> usize {
        self.cancelled.get()
    }

    /// Whether the connection should take no other stream.
    pub(super) fn is_worn(&self) -> bool {
        let unread = self.server.small.get().saturating_sub(self.read.get());
        unread.max(self.cancelled.get()) >= self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(len: usize) -> Frame<Bytes> {
        Frame::data(vec![0; len].into())
    }

    #[test]
    fn small_frames_that_are_read_do_not_wear() {
        let server = Rc::new(Http2Server::default());
        let small = &server.small;
        let wear = Wear::new(server.clone(), FlowControl::Adaptive);
        for _ in 0..2 * limits::HTTP2_WORN_AFTER {
            small.set(small.get() + 1);
            assert!(!wear.is_worn());
            wear.read(&data(SMALL - 1));
        }
        wear.read(&data(SMALL));
        small.set(small.get() + limits::HTTP2_WORN_AFTER - 1);
        assert!(!wear.is_worn());
        small.set(small.get() + 1);
        assert!(wear.is_worn());
    }

    #[test]
    fn cancelled_streams_wear() {
        let wear = Wear::new(Rc::default(), FlowControl::Adaptive);
        (1..limits::HTTP2_WORN_AFTER).for_each(|_| wear.cancel());
        assert!(!wear.is_worn());
        wear.cancel();
        assert!(wear.is_worn());
    }
}
