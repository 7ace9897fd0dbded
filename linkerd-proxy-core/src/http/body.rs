//! The bodies of requests on their way to an endpoint.

use super::{
    BodyEnd, BodyError, Now, ObserveRequest, Upload, observe::RequestObservers, replay::Replay,
};
use bytes::Bytes;
use http::HeaderMap;
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
    /// In a box, which a request without a body does not need: each stage moves this.
    observers: Option<Box<RequestObservers>>,
    upload: Option<Rc<Upload>>,
    /// Applied to trailers.
    scrub: Option<Scrub>,
}

/// Removes fields that must not be passed on.
pub type Scrub = fn(&mut HeaderMap);

enum Kind {
    Empty,
    Incoming(Incoming),
    Replay(Replay),
}

impl RequestBody {
    /// No body.
    pub fn empty() -> Self {
        Self {
            kind: Kind::Empty,
            observers: None,
            upload: None,
            scrub: None,
        }
    }

    /// A client's body.
    pub fn new(incoming: Incoming, upload: impl FnOnce() -> Upload) -> Self {
        if incoming.is_end_stream() {
            return Self::empty();
        }
        Self {
            kind: Kind::Incoming(incoming),
            observers: None,
            upload: Some(Rc::new(upload())),
            scrub: None,
        }
    }

    /// Applies `scrub` to the trailers.
    pub fn scrub_trailers(mut self, scrub: Scrub) -> Self {
        self.scrub = Some(scrub);
        self
    }

    /// The client's side of the body, unless it is empty.
    pub fn upload(&self) -> Option<Rc<Upload>> {
        self.upload.clone()
    }

    /// Adds an observer of the body, unless it is empty. It is notified after those that were added before; its exchange
    /// began at `start`.
    pub fn observe<O: ObserveRequest + 'static>(&mut self, observer: &Rc<O>, start: Instant) {
        if !self.is_end_stream() {
            let observers = self.observers.get_or_insert_default();
            observers.add(observer.clone(), start);
        }
    }

    /// Makes a copy for another attempt, which yields the same frames to the same observers as long as they are no more
    /// than `limit` bytes.
    ///
    /// From here on frames are kept as they pass. `None` if the body is known to be too large.
    pub fn replayable(&mut self, limit: usize) -> Option<Self> {
        let copy = match std::mem::replace(&mut self.kind, Kind::Empty) {
            Kind::Empty => return Some(Self::empty()),
            Kind::Incoming(incoming) => {
                if incoming.size_hint().lower() > limit as u64 {
                    self.kind = Kind::Incoming(incoming);
                    return None;
                }
                let replay = Replay::new(incoming, limit);
                let copy = replay.copy();
                self.kind = Kind::Replay(replay);
                copy
            }
            Kind::Replay(replay) => {
                let copy = replay.copy();
                self.kind = Kind::Replay(replay);
                copy
            }
        };
        let observers = self.observers.as_ref();
        Some(Self {
            kind: Kind::Replay(copy),
            observers: observers.map(|observers| Box::new(observers.another())),
            upload: self.upload.clone(),
            scrub: self.scrub,
        })
    }

    /// Whether all frames that have passed are still kept.
    pub fn is_whole(&self) -> bool {
        match &self.kind {
            Kind::Replay(replay) => replay.is_whole(),
            Kind::Empty | Kind::Incoming(_) => true,
        }
    }

    /// Notifies the observers, if there are any, of what has passed.
    fn notify(&mut self, passed: Option<&Result<Frame<Bytes>, BodyError>>) {
        let Some(observers) = &mut self.observers else {
            return;
        };
        let now = Now::default();
        let trailers = match passed {
            Some(Err(error)) => return observers.end(BodyEnd::Failed(error), &now),
            Some(Ok(frame)) => match frame.data_ref() {
                Some(data) => {
                    observers.data(data.len(), &now);
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
        observers.end(BodyEnd::Complete(trailers), &now);
    }
}

impl Kind {
    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Incoming(incoming) => incoming.is_end_stream(),
            Self::Replay(replay) => replay.is_end_stream(),
        }
    }
}

impl std::fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self.kind {
            Kind::Empty => "empty",
            Kind::Incoming(_) => "incoming",
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
        if let Some(observers) = &mut self.observers {
            observers.begin();
        }
        let mut frame = match &mut self.kind {
            Kind::Empty => return Poll::Ready(None),
            Kind::Incoming(incoming) => {
                let frame = ready!(Pin::new(incoming).poll_frame(cx));
                frame.map(|frame| frame.map_err(BodyError::from))
            }
            Kind::Replay(replay) => ready!(Pin::new(replay).poll_frame(cx)),
        };
        match &mut frame {
            Some(Ok(frame)) => {
                if let Some(scrub) = self.scrub
                    && let Some(trailers) = frame.trailers_mut()
                {
                    scrub(trailers);
                }
            }
            Some(Err(error)) => {
                if let Some(upload) = &self.upload {
                    upload.broke_off(error);
                }
            }
            None => {}
        }
        self.notify(frame.as_ref());
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.kind.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Empty => SizeHint::with_exact(0),
            Kind::Incoming(incoming) => incoming.size_hint(),
            Kind::Replay(replay) => replay.size_hint(),
        }
    }
}
