//! Streams of an HTTP/2 connection, and its room for more.

use super::{
    super::{
        body::{Lease, PolledFrame},
        peer::Peer,
        uploading::Uploading,
    },
    wear::Wear,
};
use crate::{
    http::{FlowControl, Now, merged::Http2Server},
    limits,
};
use http_body::Body;
use hyper::{body::Incoming, client::conn::http2::SendRequest};
use std::{
    cell::Cell,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

/// A connection to an endpoint.
pub(super) struct Connection<B> {
    sender: SendRequest<Uploading<B>>,
    /// The peer, as recognized by its first bytes.
    peer: Rc<Peer>,
    streams: Cell<usize>,
    /// The peer's limit, as last seen.
    limit: Rc<Cell<usize>>,
    /// Whether it takes no stream any more: the endpoint is trusted no more.
    retired: Rc<Cell<bool>>,
    server: Rc<Http2Server>,
    /// The count of frames and streams that wear the connection out.
    wear: Wear,
    /// Streams with a frame that was not read yet.
    unread: Cell<usize>,
    /// The number of unread streams beside which others go to another connection.
    stalled_by: usize,
    /// Notifies the client that a connection which took no stream takes one.
    has_room_again: Box<dyn Fn()>,
}

/// A stream that an exchange holds.
pub(super) struct Stream<B> {
    connection: Rc<Connection<B>>,
    is_unread: bool,
    is_complete: bool,
}

impl<B> Connection<B> {
    /// A connection without streams, whose responses have these windows. `has_room_again` is called when it takes streams after it
    /// took none.
    pub(super) fn new(
        sender: SendRequest<Uploading<B>>,
        peer: Rc<Peer>,
        limit: Rc<Cell<usize>>,
        retired: Rc<Cell<bool>>,
        server: Rc<Http2Server>,
        windows: FlowControl,
        has_room_again: impl Fn() + 'static,
    ) -> Self {
        Self {
            sender,
            peer,
            streams: Cell::new(0),
            limit,
            retired,
            wear: Wear::new(server.clone(), windows),
            server,
            unread: Cell::new(0),
            stalled_by: stalled_by(windows),
            has_room_again: Box::new(has_room_again),
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed() || self.retired.get() || self.wear.is_worn()
    }

    /// Whether the connection takes another stream. A stalled connection does so only if it `is_last`: no further connection is
    /// allowed beside it.
    pub(super) fn has_room(&self, is_last: bool) -> bool {
        let has_window = is_last || !self.is_stalled();
        self.streams.get() < self.limit.get() && has_window && !self.is_closed()
    }

    /// The load: the connection with the least load takes the next stream.
    pub(super) fn load(&self) -> (bool, usize) {
        (self.is_stalled(), self.streams.get())
    }

    pub(super) fn inspect(&self) -> serde_json::Value {
        serde_json::json!({
            "streams": self.streams.get(),
            "limit": self.limit.get(),
            "unread": self.unread.get(),
            "cancelled": self.wear.cancelled(),
        })
    }

    /// Whether unread responses may hold the whole window of the connection, so that no other response goes on.
    fn is_stalled(&self) -> bool {
        self.unread.get() >= self.stalled_by
    }
}

impl<B> Stream<B> {
    /// Counts a stream.
    pub(super) fn open(connection: &Rc<Connection<B>>) -> Self {
        let streams = &connection.streams;
        streams.set(streams.get() + 1);
        Self {
            connection: connection.clone(),
            is_unread: false,
            is_complete: false,
        }
    }

    pub(super) fn sender(&self) -> SendRequest<Uploading<B>> {
        self.connection.sender.clone()
    }

    /// The most bytes of a head that the endpoint takes.
    pub(super) fn max_head(&self) -> usize {
        self.connection.server.max_head.get() as usize
    }

    pub(super) fn peer(&self) -> &Peer {
        &self.connection.peer
    }

    /// Notes whether the response, or more of it, is still to be read.
    pub(super) fn set_unread(&mut self, is_unread: bool) {
        if is_unread == self.is_unread {
            return;
        }
        self.is_unread = is_unread;
        let (unread, was_stalled) = (&self.connection.unread, self.connection.is_stalled());
        match is_unread {
            true => unread.set(unread.get() + 1),
            false => unread.set(unread.get() - 1),
        }
        if was_stalled && !self.connection.is_stalled() {
            (self.connection.has_room_again)();
        }
    }
}

impl<B> Lease for Stream<B> {
    fn poll_frame(&mut self, incoming: &mut Incoming, cx: &mut Context<'_>) -> PolledFrame {
        let polled = Pin::new(incoming).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            self.connection.wear.read(frame);
        }
        // There may be more, unless it says that there is not.
        self.set_unread(matches!(polled, Poll::Ready(Some(Ok(_)))));
        polled
    }

    fn complete(mut self: Box<Self>, _: &Now) {
        self.is_complete = true;
    }
}

impl<B> Drop for Stream<B> {
    fn drop(&mut self) {
        self.set_unread(false);
        if !self.is_complete {
            self.connection.wear.cancel();
        }
        let streams = &self.connection.streams;
        let was_full = streams.get() >= self.connection.limit.get();
        streams.set(streams.get() - 1);
        if was_full {
            (self.connection.has_room_again)();
        }
    }
}

/// The number of unread responses that may stall others: their windows make up that of their connection, or their small frames
/// its limit of them.
fn stalled_by(windows: FlowControl) -> usize {
    match windows {
        FlowControl::Fixed { stream, connection } => {
            let streams = (connection / stream.max(1)).max(1);
            streams.min(limits::HTTP2_UNREAD_STREAMS) as usize
        }
        // The size of adaptive windows is unknown.
        FlowControl::Adaptive => usize::MAX,
    }
}
