//! The body of a client's request, as received.

use super::BodyError;
use crate::{Error, Reason};
use bytes::Bytes;
use http::Version;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

/// A client's body, which ends only where the client ended it.
///
/// hyper reports an HTTP/2 stream that is reset with `NO_ERROR` as ended, which is right for responses only (RFC 9113, section
/// 8.1): a request that ends so is an upload that its client gave up, and the endpoint must not take it as whole.
pub(super) struct Received {
    incoming: Incoming,
    is_stream: bool,
}

impl Received {
    /// The body of a request of this version.
    pub(super) fn new(incoming: Incoming, version: Version) -> Self {
        Self {
            incoming,
            is_stream: version == Version::HTTP_2,
        }
    }
}

impl Body for Received {
    type Data = Bytes;
    type Error = BodyError;

    #[inline]
    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = ready!(Pin::new(&mut self.incoming).poll_frame(cx));
        Poll::Ready(match frame {
            Some(frame) => Some(frame.map_err(BodyError::from)),
            None if self.is_stream && !self.incoming.is_end_stream() => Some(Err(given_up())),
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

#[cold]
fn given_up() -> BodyError {
    let detail = "the request's body broke off: its client reset the stream with NO_ERROR";
    Error::new(Reason::BrokenBody).detail(detail).into()
}
