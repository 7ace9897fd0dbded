//! The body of an HTTP/2 request while its connection sends it.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::{
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

/// A request's body on its stream, which is dropped once all of it was given to the stream, or the stream has ended.
pub(super) struct Uploading<B> {
    body: B,
    _watched: Option<Rc<()>>,
}

/// Tells whether a body is still being sent.
#[derive(Debug)]
pub(in crate::http) struct UploadWatch(Rc<()>);

impl<B: Body> Uploading<B> {
    /// A body, and its watch unless it is empty.
    pub(super) fn new(body: B) -> (Self, Option<UploadWatch>) {
        let watched = (!body.is_end_stream()).then(Rc::default);
        let watch = watched.clone().map(UploadWatch);
        let uploading = Self {
            body,
            _watched: watched,
        };
        (uploading, watch)
    }

    /// The body alone, which was not sent.
    pub(super) fn into_inner(self) -> B {
        self.body
    }
}

impl UploadWatch {
    /// Whether not all of the body was given to its stream.
    pub(in crate::http) fn goes_on(&self) -> bool {
        Rc::strong_count(&self.0) > 1
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
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
