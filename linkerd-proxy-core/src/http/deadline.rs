//! A time limit of a body that has begun.

use super::{
    BodyEnd, BodyError, Now, ObserveRequest, ObserveResponse, ObservedRequest, ObservedResponse,
};
use crate::{Error, Reason};
use pin_project_lite::pin_project;
use std::{
    cell::Cell,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
    time::Duration,
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
        // The last frame, if the limit runs from there.
        idle: Option<(Rc<LastFrame>, Duration)>,
        // Another limit of the same body.
        next: Option<Deadline>,
    }
}

/// The time of the last frame of an exchange, in either direction: an observer of both bodies.
#[derive(Debug)]
pub struct LastFrame(Cell<Instant>);

impl LastFrame {
    /// As if one had passed now.
    pub fn now() -> Rc<Self> {
        Rc::new(Self(Cell::new(Instant::now())))
    }

    /// Something passed that is no frame, such as the headers of a response.
    pub fn passed(&self) {
        self.0.set(Instant::now());
    }
}

impl ObserveRequest for LastFrame {
    fn data(&self, _: &ObservedRequest, _: usize, now: &Now) {
        self.0.set(now.get());
    }
}

impl ObserveResponse for LastFrame {
    fn data(&self, _: &ObservedResponse<'_>, _: usize, now: &Now) {
        self.0.set(now.get());
    }

    fn end(&self, _: &ObservedResponse<'_>, _: BodyEnd<'_>, _: &Now) {}
}

impl Deadline {
    /// A limit that passes at `at`.
    pub fn new(at: Instant, reason: Reason) -> Self {
        Self::with(at, reason, None)
    }

    /// A limit that passes when there was no frame for `limit`.
    pub fn idle(last: &Rc<LastFrame>, limit: Duration, reason: Reason) -> Self {
        Self::with(last.0.get() + limit, reason, Some((last.clone(), limit)))
    }

    fn with(at: Instant, reason: Reason, idle: Option<(Rc<LastFrame>, Duration)>) -> Self {
        Self(Box::pin(Timer {
            sleep: sleep_until(at),
            reason,
            idle,
            next: None,
        }))
    }

    /// The same limits, for another attempt to send a request.
    pub(super) fn another(&self) -> Self {
        let timer = &self.0;
        let next = timer.next.as_ref().map(Self::another);
        Self::with(timer.sleep.deadline(), timer.reason, timer.idle.clone()).and(next)
    }

    /// This limit and others.
    pub(super) fn and(mut self, others: Option<Self>) -> Self {
        *self.0.as_mut().project().next = others;
        self
    }

    /// Ready with the body's error as soon as one of the limits has passed.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<BodyError> {
        let mut timer = self.0.as_mut().project();
        if let Some(next) = timer.next
            && let Poll::Ready(error) = next.poll(cx)
        {
            return Poll::Ready(error);
        }
        loop {
            ready!(timer.sleep.as_mut().poll(cx));
            match timer.idle {
                Some((last, limit)) if last.0.get() + *limit > Instant::now() => {
                    timer.sleep.as_mut().reset(last.0.get() + *limit);
                }
                _ => return Poll::Ready(Error::new(*timer.reason).into()),
            }
        }
    }
}
