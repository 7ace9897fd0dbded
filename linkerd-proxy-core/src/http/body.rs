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
///
/// Boxed, as each stage and codec moves the request; a request without a body needs no box.
pub struct RequestBody(Option<Box<Content>>);

/// Removes fields that must not be passed on.
pub type Scrub = fn(&mut HeaderMap);

/// A body that is not empty, and the attempt to send it.
struct Content {
    source: Source,
    observers: RequestObservers,
    deadline: Option<Deadline>,
    /// Applied to trailers.
    scrub: Option<Scrub>,
    upload: Option<Rc<Upload>>,
}

enum Source {
    Received(Received),
    Replay(Replay),
    Full(Bytes),
    /// All data has passed. The body is kept for copies.
    FullSent(Bytes),
}

impl RequestBody {
    /// No body.
    pub fn empty() -> Self {
        Self(None)
    }

    /// A body that the proxy makes itself.
    pub fn full(data: impl Into<Bytes>) -> Self {
        let data = data.into();
        match data.is_empty() {
            true => Self::empty(),
            false => Self::of_source(Source::Full(data), None),
        }
    }

    /// The body of a client's request of this version.
    pub fn new(incoming: Incoming, version: Version, upload: impl FnOnce() -> Upload) -> Self {
        if incoming.is_end_stream() {
            return Self::empty();
        }
        let upload = Rc::new(upload());
        let received = Received::new(incoming, version);
        Self::of_source(Source::Received(received), Some(upload))
    }

    fn of_source(source: Source, upload: Option<Rc<Upload>>) -> Self {
        Self(Some(Box::new(Content {
            source,
            observers: RequestObservers::default(),
            deadline: None,
            scrub: None,
            upload,
        })))
    }

    /// The content of a body that has not ended.
    fn unfinished(&mut self) -> Option<&mut Content> {
        let content = self.0.as_deref_mut()?;
        (!content.source.is_end_stream()).then_some(content)
    }

    /// Applies `scrub` to the trailers, if the body is not empty.
    pub fn scrub_trailers(&mut self, scrub: Scrub) {
        if let Some(content) = self.unfinished() {
            content.scrub = Some(scrub);
        }
    }

    /// The client's side of the body, unless the body is empty or the proxy's own.
    pub fn upload(&self) -> Option<Rc<Upload>> {
        self.0.as_ref()?.upload.clone()
    }

    /// Adds an observer of the body, unless the body is empty. Observers are notified in the order in which they were added. For
    /// this observer the exchange began at `start`.
    pub fn observe<O: ObserveRequest + 'static>(&mut self, observer: &Rc<O>, start: Instant) {
        if let Some(content) = self.unfinished() {
            content.observers.add(observer.clone(), start);
        }
    }

    /// Ends the body by an error if it goes on after the deadline. Earlier deadlines of the body stay.
    pub fn end_by(&mut self, deadline: Deadline) {
        if let Some(content) = self.unfinished() {
            let known = content.deadline.take();
            content.deadline = Some(deadline.and(known));
        }
    }

    /// Makes a copy for another attempt, which yields the same frames to the same observers, until the same deadline, as
    /// long as the frames have no more than `limit` bytes.
    ///
    /// From here on, frames are kept as they pass. `None` if the body is known to be too large.
    pub fn replayable(&mut self, limit: usize) -> Option<Self> {
        let Some(content) = &mut self.0 else {
            return Some(Self::empty());
        };
        let copy = Content {
            source: content.source.replayable(limit)?,
            observers: content.observers.another(),
            deadline: content.deadline.as_ref().map(Deadline::another),
            scrub: content.scrub,
            upload: content.upload.clone(),
        };
        Some(Self(Some(Box::new(copy))))
    }

    /// Whether all frames that have passed are still kept.
    pub fn is_whole(&self) -> bool {
        match self.source() {
            Some(Source::Replay(replay)) => replay.is_whole(),
            _ => true,
        }
    }

    /// Whether no other attempt still reads the body: each has finished, or was dropped.
    pub fn is_released(&self) -> bool {
        match self.source() {
            Some(Source::Replay(replay)) => replay.is_released(),
            _ => true,
        }
    }

    fn source(&self) -> Option<&Source> {
        Some(&self.0.as_ref()?.source)
    }
}

impl Content {
    /// Notifies the observers of a frame, an error or the end.
    fn notify(&mut self, passed: Option<&Result<Frame<Bytes>, BodyError>>, now: &Now) {
        let observers = &mut self.observers;
        let trailers = match passed {
            Some(Err(error)) => return observers.end(BodyEnd::Failed(error), now),
            Some(Ok(frame)) => match frame.data_ref() {
                Some(data) => {
                    observers.data(data.len(), now);
                    if !self.source.is_end_stream() {
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

impl Source {
    /// Keeps frames as they pass from here on, and returns a copy. `None` if the body is known to be larger than `limit`.
    fn replayable(&mut self, limit: usize) -> Option<Self> {
        let (kept, copy) = match std::mem::replace(self, Self::FullSent(Bytes::new())) {
            Self::Received(received) if received.size_hint().lower() > limit as u64 => {
                (Self::Received(received), None)
            }
            Self::Received(received) => {
                let replay = Replay::new(received, limit);
                let copy = replay.copy();
                (Self::Replay(replay), Some(Self::Replay(copy)))
            }
            Self::Replay(replay) => {
                let copy = replay.copy();
                (Self::Replay(replay), Some(Self::Replay(copy)))
            }
            Self::Full(data) => (Self::Full(data.clone()), Some(Self::Full(data))),
            Self::FullSent(data) => (Self::FullSent(data.clone()), Some(Self::Full(data))),
        };
        *self = kept;
        copy
    }

    #[inline]
    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self {
            Self::FullSent(_) => Poll::Ready(None),
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
            Self::FullSent(_) => true,
            Self::Full(_) => false,
            Self::Received(received) => received.is_end_stream(),
            Self::Replay(replay) => replay.is_end_stream(),
        }
    }
}

impl std::fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let source = match self.source() {
            None => "empty",
            Some(Source::Full(_) | Source::FullSent(_)) => "full",
            Some(Source::Received(_)) => "received",
            Some(Source::Replay(_)) => "replay",
        };
        f.debug_tuple("RequestBody").field(&source).finish()
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Some(this) = self.0.as_deref_mut() else {
            return Poll::Ready(None);
        };
        let now = Now::default();
        this.observers.begin();
        let polled = this.source.poll_frame(cx);
        let mut frame = match (polled, &mut this.deadline) {
            (polled, None) => ready!(polled),
            (Poll::Pending, Some(deadline)) => Some(Err(ready!(deadline.poll(cx, &now)))),
            (Poll::Ready(frame), Some(deadline)) => match deadline.pass(&now) {
                Some(error) => Some(Err(error)),
                None => frame,
            },
        };
        match &mut frame {
            Some(Ok(frame)) => {
                if let Some(scrub) = this.scrub
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
        self.source().is_none_or(Source::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        match self.source() {
            None | Some(Source::FullSent(_)) => SizeHint::with_exact(0),
            Some(Source::Full(data)) => SizeHint::with_exact(data.len() as u64),
            Some(Source::Received(received)) => received.size_hint(),
            Some(Source::Replay(replay)) => replay.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests;
