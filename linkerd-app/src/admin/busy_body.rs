//! The body of an answer, during which its connection is busy.

use http_body::{Body, Frame, SizeHint};
use linkerd_proxy_core::http::Busy;
use pin_project_lite::pin_project;
use std::{
    pin::Pin,
    task::{Context, Poll},
};

pin_project! {
    /// A body that keeps its connection busy until it is dropped. An idle connection is parked after some seconds, and a stream
    /// that pauses would never go on.
    pub(crate) struct BusyBody<B> {
        #[pin]
        body: B,
        busy: Busy,
    }
}

impl<B> BusyBody<B> {
    /// Keeps a connection busy.
    pub(crate) fn new(body: B, busy: Busy) -> Self {
        Self { body, busy }
    }
}

impl<B: Body> Body for BusyBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        self.project().body.poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
