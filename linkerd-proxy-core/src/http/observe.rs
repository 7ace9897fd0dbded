//! A response's body that tells somebody what happens to it.

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

/// What becomes of a body.
pub trait Observe {
    /// A frame of data has passed.
    fn data(&mut self, len: usize);
    /// The body has ended, or was dropped.
    fn end(&mut self, end: End<'_>);
}

/// How a body ended.
#[derive(Clone, Copy, Debug)]
pub enum End<'a> {
    /// All of it has passed.
    Complete(Option<&'a HeaderMap>),
    /// It broke off.
    Failed(&'a hyper::Error),
    /// Nobody wanted the rest.
    Dropped,
}

/// A body whose frames an observer sees. The end is told exactly once.
#[derive(Debug)]
pub struct Observed<B, O: Observe> {
    body: B,
    observer: Option<O>,
}

impl<B: Body, O: Observe> Observed<B, O> {
    /// A body that has its end still before it tells `observer` of it, an empty one does so now.
    pub fn new(body: B, mut observer: O) -> Self {
        if body.is_end_stream() {
            observer.end(End::Complete(None));
            return Self {
                body,
                observer: None,
            };
        }
        Self {
            body,
            observer: Some(observer),
        }
    }
}

impl<B, O: Observe> Drop for Observed<B, O> {
    fn drop(&mut self) {
        if let Some(mut observer) = self.observer.take() {
            observer.end(End::Dropped);
        }
    }
}

impl<B, O> Body for Observed<B, O>
where
    B: Body<Data = Bytes, Error = hyper::Error> + Unpin,
    O: Observe + Unpin,
{
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = &mut *self;
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
        if let Some(observer) = &mut this.observer {
            let ended = match &frame {
                None => Some(End::Complete(None)),
                Some(Err(error)) => Some(End::Failed(error)),
                Some(Ok(frame)) => match frame.data_ref() {
                    None => Some(End::Complete(frame.trailers_ref())),
                    Some(data) => {
                        observer.data(data.len());
                        this.body.is_end_stream().then_some(End::Complete(None))
                    }
                },
            };
            if let Some(end) = ended {
                observer.end(end);
                this.observer = None;
            }
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
