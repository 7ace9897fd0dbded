//! The bodies of requests on their way to an endpoint.

use super::{
    BodyEnd, BodyError, Deadline, Now, ObserveRequest, Upload, observe::RequestObservers,
    received::Received, replay::Replay,
};
use bytes::Bytes;
use http::{HeaderMap, Version};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use std::{
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};
use tokio::time::Instant;

/// A request's body.
pub struct RequestBody {
    kind: Kind,
    /// Boxed, as each stage moves the body; a request without a body needs no box.
    attempt: Option<Box<Attempt>>,
    upload: Option<Rc<Upload>>,
}

/// Removes fields that must not be passed on.
pub type Scrub = fn(&mut HeaderMap);

enum Kind {
    Empty,
    Received(Received),
    Replay(Replay),
    Full(Bytes),
    /// All data has passed. The body is kept for copies.
    FullSent(Bytes),
}

/// An attempt to send a body.
#[derive(Default)]
struct Attempt {
    observers: RequestObservers,
    deadline: Option<Deadline>,
    /// Applied to trailers.
    scrub: Option<Scrub>,
}

impl RequestBody {
    /// No body.
    pub fn empty() -> Self {
        Self::of_kind(Kind::Empty, None)
    }

    /// A body that the proxy makes itself.
    pub fn full(data: impl Into<Bytes>) -> Self {
        let data = data.into();
        match data.is_empty() {
            true => Self::empty(),
            false => Self::of_kind(Kind::Full(data), None),
        }
    }

    /// The body of a client's request of this version.
    pub fn new(incoming: Incoming, version: Version, upload: impl FnOnce() -> Upload) -> Self {
        if incoming.is_end_stream() {
            return Self::empty();
        }
        let upload = Rc::new(upload());
        let received = Received::new(incoming, version);
        Self::of_kind(Kind::Received(received), Some(upload))
    }

    fn of_kind(kind: Kind, upload: Option<Rc<Upload>>) -> Self {
        Self {
            kind,
            attempt: None,
            upload,
        }
    }

    /// Applies `scrub` to the trailers, if the body is not empty.
    pub fn scrub_trailers(&mut self, scrub: Scrub) {
        if !self.is_end_stream() {
            self.attempt.get_or_insert_default().scrub = Some(scrub);
        }
    }

    /// The client's side of the body, unless the body is empty or the proxy's own.
    pub fn upload(&self) -> Option<Rc<Upload>> {
        self.upload.clone()
    }

    /// Adds an observer of the body, unless the body is empty. Observers are notified in the order in which they were added. For
    /// this observer the exchange began at `start`.
    pub fn observe<O: ObserveRequest + 'static>(&mut self, observer: &Rc<O>, start: Instant) {
        if !self.is_end_stream() {
            let attempt = self.attempt.get_or_insert_default();
            attempt.observers.add(observer.clone(), start);
        }
    }

    /// Ends the body by an error if it goes on after the deadline. Earlier deadlines of the body stay.
    pub fn end_by(&mut self, deadline: Deadline) {
        if !self.is_end_stream() {
            let attempt = self.attempt.get_or_insert_default();
            let known = attempt.deadline.take();
            attempt.deadline = Some(deadline.and(known));
        }
    }

    /// Makes a copy for another attempt, which yields the same frames to the same observers, until the same deadline, as
    /// long as the frames have no more than `limit` bytes.
    ///
    /// From here on, frames are kept as they pass. `None` if the body is known to be too large.
    pub fn replayable(&mut self, limit: usize) -> Option<Self> {
        let (kind, copy) = match std::mem::replace(&mut self.kind, Kind::Empty) {
            Kind::Empty => return Some(Self::empty()),
            Kind::Received(received) if received.size_hint().lower() > limit as u64 => {
                self.kind = Kind::Received(received);
                return None;
            }
            Kind::Received(received) => {
                let replay = Replay::new(received, limit);
                let copy = replay.copy();
                (Kind::Replay(replay), Kind::Replay(copy))
            }
            Kind::Replay(replay) => {
                let copy = replay.copy();
                (Kind::Replay(replay), Kind::Replay(copy))
            }
            Kind::Full(data) => (Kind::Full(data.clone()), Kind::Full(data)),
            Kind::FullSent(data) => (Kind::FullSent(data.clone()), Kind::Full(data)),
        };
        self.kind = kind;
        let attempt = self.attempt.as_ref();
        Some(Self {
            kind: copy,
            attempt: attempt.map(|attempt| Box::new(attempt.another())),
            upload: self.upload.clone(),
        })
    }

    /// Whether all frames that have passed are still kept.
    pub fn is_whole(&self) -> bool {
        match &self.kind {
            Kind::Replay(replay) => replay.is_whole(),
            Kind::Empty | Kind::Received(_) | Kind::Full(_) | Kind::FullSent(_) => true,
        }
    }

    /// Whether no other attempt still reads the body: each has finished, or was dropped.
    pub fn is_released(&self) -> bool {
        match &self.kind {
            Kind::Replay(replay) => replay.is_released(),
            Kind::Empty | Kind::Received(_) | Kind::Full(_) | Kind::FullSent(_) => true,
        }
    }

    /// Notifies the observers, if there are any, of a frame, an error or the end.
    fn notify(&mut self, passed: Option<&Result<Frame<Bytes>, BodyError>>, now: &Now) {
        let Some(attempt) = &mut self.attempt else {
            return;
        };
        let observers = &mut attempt.observers;
        let trailers = match passed {
            Some(Err(error)) => return observers.end(BodyEnd::Failed(error), now),
            Some(Ok(frame)) => match frame.data_ref() {
                Some(data) => {
                    observers.data(data.len(), now);
                    if !self.kind.is_end_stream() {
                        return;
                    }
                    None
                }
                None => frame.trailers_ref(),
            },
            None => None,
        };
        if let Some(upload) = &self.upload {
            upload.end(now.get());
        }
        observers.end(BodyEnd::Complete(trailers), now);
    }
}

impl Attempt {
    fn another(&self) -> Self {
        Self {
            observers: self.observers.another(),
            deadline: self.deadline.as_ref().map(Deadline::another),
            scrub: self.scrub,
        }
    }
}

impl Kind {
    #[inline]
    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self {
            Self::Empty | Self::FullSent(_) => Poll::Ready(None),
            Self::Received(received) => Pin::new(received).poll_frame(cx),
            Self::Replay(replay) => Pin::new(replay).poll_frame(cx),
            Self::Full(data) => {
                let data = data.clone();
                *self = Self::FullSent(data.clone());
                Poll::Ready(Some(Ok(Frame::data(data))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty | Self::FullSent(_) => true,
            Self::Full(_) => false,
            Self::Received(received) => received.is_end_stream(),
            Self::Replay(replay) => replay.is_end_stream(),
        }
    }
}

impl std::fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self.kind {
            Kind::Empty => "empty",
            Kind::Full(_) | Kind::FullSent(_) => "full",
            Kind::Received(_) => "received",
            Kind::Replay(_) => "replay",
        };
        f.debug_tuple("RequestBody").field(&kind).finish()
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        let now = Now::default();
        let mut deadline = None;
        if let Some(attempt) = &mut this.attempt {
            attempt.observers.begin();
            deadline = attempt.deadline.as_mut();
        }
        let polled = this.kind.poll_frame(cx);
        let mut frame = match (polled, deadline) {
            (polled, None) => ready!(polled),
            (Poll::Pending, Some(deadline)) => Some(Err(ready!(deadline.poll(cx, &now)))),
            (Poll::Ready(frame), Some(deadline)) => match deadline.pass(&now) {
                Some(error) => Some(Err(error)),
                None => frame,
            },
        };
        match &mut frame {
            Some(Ok(frame)) => {
                let scrub = this.attempt.as_ref().and_then(|attempt| attempt.scrub);
                if let Some(scrub) = scrub
                    && let Some(trailers) = frame.trailers_mut()
                {
                    scrub(trailers);
                }
            }
            Some(Err(error)) => {
                if let Some(upload) = &this.upload {
                    upload.broke_off(error);
                }
            }
            None => {}
        }
        this.notify(frame.as_ref(), &now);
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.kind.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Empty | Kind::FullSent(_) => SizeHint::with_exact(0),
            Kind::Full(data) => SizeHint::with_exact(data.len() as u64),
            Kind::Received(received) => received.size_hint(),
            Kind::Replay(replay) => replay.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests;
