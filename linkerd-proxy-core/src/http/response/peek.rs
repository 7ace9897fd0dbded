//! Reads the first frame of a response ahead, before the response is passed on.

use super::{Inner, ResponseBody};
use crate::http::{Now, grpc_status};
use http_body::{Body, SizeHint};
use std::{
    pin::Pin,
    task::{Context, Poll, Waker, ready},
};

impl ResponseBody {
    /// The gRPC code of the response: from its headers, or from its trailers if they are the first frame. Waits for the first
    /// frame if need be, and keeps it for the reader of the body. Cancel safe.
    pub fn poll_grpc_code(&mut self, cx: &mut Context<'_>) -> Poll<Option<u8>> {
        let inner = &mut *self.0;
        if let Some(code) = inner.observers.code {
            return Poll::Ready(Some(code));
        }
        while inner.peeked.is_none()
            && let Some(endpoint) = &mut inner.endpoint
            && !endpoint.is_end_stream()
        {
            let frame = ready!(endpoint.poll_frame(cx, &Now::default()));
            let data = frame
                .as_ref()
                .and_then(|frame| frame.as_ref().ok()?.data_ref());
            // An empty frame says nothing, and is dropped.
            if data.is_none_or(|data| !data.is_empty()) {
                inner.peeked = Some(Box::new(frame));
            }
        }
        let trailers = match inner.peeked.as_deref() {
            Some(Some(Ok(frame))) => frame.trailers_ref(),
            _ => None,
        };
        Poll::Ready(trailers.and_then(grpc_status))
    }

    /// Drops a response that another attempt replaces. If its end is known, observers see it.
    pub fn discard(mut self) {
        if self.0.peeked.is_some() {
            let mut cx = Context::from_waker(Waker::noop());
            let _ = Pin::new(&mut self).poll_frame(&mut cx);
        }
    }
}

impl Inner {
    /// The size of the endpoint's body, including the frame that was read ahead.
    pub(super) fn size_with_peeked(&self) -> SizeHint {
        let rest = self.endpoint.as_ref().map(|endpoint| endpoint.size_hint());
        let mut size = rest.unwrap_or_default();
        if let Some(Some(Ok(frame))) = self.peeked.as_deref()
            && let Some(data) = frame.data_ref()
        {
            let peeked = data.len() as u64;
            match size.exact() {
                Some(exact) => size.set_exact(exact + peeked),
                None => size.set_lower(size.lower() + peeked),
            }
        }
        size
    }
}
