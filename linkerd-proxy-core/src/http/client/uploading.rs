//! The body of an HTTP/2 request while its connection sends it.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::{
    cell::Cell,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};

/// A request's body on its stream; dropped once all of it was given to the stream, or the stream has ended.
pub(super) struct Uploading<B> {
    body: B,
    watched: Option<Rc<Given>>,
}

/// Observes how much of a body was sent.
#[derive(Debug)]
pub(in crate::http) struct UploadWatch(Rc<Given>);

/// The part of a body that was given to its stream.
#[derive(Debug, Default)]
struct Given {
    bytes: Cell<usize>,
    is_whole: Cell<bool>,
}

impl<B: Body> Uploading<B> {
    /// A body, and its watch unless it is empty.
    pub(super) fn new(body: B) -> (Self, Option<UploadWatch>) {
        let watched = (!body.is_end_stream()).then(Rc::default);
        let watch = watched.clone().map(UploadWatch);
        let uploading = Self { body, watched };
        (uploading, watch)
    }

    /// The body alone, if it was not sent.
    pub(super) fn into_inner(self) -> B {
        self.body
    }
}

impl UploadWatch {
    /// Whether a part of the body was not given to its stream yet.
    pub(in crate::http) fn goes_on(&self) -> bool {
        Rc::strong_count(&self.0) > 1
    }

    /// Whether all of the body was sent, as far as can be known: all of it was given to its stream, and it fits into the
    /// stream's initial window. Wrong if the endpoint made the window smaller, or other streams have used up the connection's.
    pub(in crate::http) fn was_sent(&self) -> bool {
        self.0.is_whole.get() && self.0.bytes.get() <= INITIAL_WINDOW
    }
}

impl<B> Body for Uploading<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(given) = &self.watched {
            let data = match &frame {
                Some(Ok(frame)) => frame.data_ref(),
                _ => None,
            };
            let bytes = given.bytes.get() + data.map_or(0, Bytes::len);
            given.bytes.set(bytes);
            let is_last = match &frame {
                Some(Ok(frame)) => frame.is_trailers() || self.body.is_end_stream(),
                Some(Err(_)) => false,
                None => true,
            };
            given.is_whole.set(is_last);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The initial window of a stream, unless the peer's settings change it (RFC 9113, section 6.9.2).
const INITIAL_WINDOW: usize = 65_535;
