//! A time limit of a body that has begun.

use super::BodyError;
use crate::{Error, Reason};
use pin_project_lite::pin_project;
use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::time::{Instant, Sleep, sleep_until};

/// A time limit of a body: when it passes, the body ends with an error of the limit's reason.
///
/// - A response ends with trailers for gRPC, with a reset for HTTP/2, and with its connection for HTTP/1. The endpoint is
///   let go at once.
/// - A request's stream or connection ends the same way, and the request fails for that reason.
///
/// It ends a body that waits for its sender, or that goes on without end. One that waits for its receiver is not polled by
/// the codec: it ends when the receiver takes something.
#[derive(Debug)]
pub struct Deadline(Pin<Box<Timer>>);

pin_project! {
    #[derive(Debug)]
    struct Timer {
        #[pin]
        sleep: Sleep,
        reason: Reason,
    }
}

impl Deadline {
    /// A limit that passes at `at`.
    pub fn new(at: Instant, reason: Reason) -> Self {
        let sleep = sleep_until(at);
        Self(Box::pin(Timer { sleep, reason }))
    }

    /// The same limit, for another attempt to send a request.
    pub(super) fn another(&self) -> Self {
        Self::new(self.at(), self.0.reason)
    }

    /// The earlier one of two.
    pub(super) fn or_earlier(self, other: Option<Self>) -> Self {
        match other {
            Some(other) if other.at() <= self.at() => other,
            _ => self,
        }
    }

    fn at(&self) -> Instant {
        self.0.sleep.deadline()
    }

    /// Ready with the body's error as soon as it has passed.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<BodyError> {
        let timer = self.0.as_mut().project();
        ready!(timer.sleep.poll(cx));
        Poll::Ready(Error::new(*timer.reason).into())
    }
}
