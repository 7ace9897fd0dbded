//! The bodies of requests on their way to an endpoint.

use super::{BodyError, Busy, replay::Replay};
use crate::{Error, Reason, metrics::Histogram};
use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use std::{
    cell::{Cell, OnceCell},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};
use tokio::time::Instant;

/// A request's body.
pub struct RequestBody {
    kind: Kind,
    progress: Option<Rc<Progress>>,
    upload: Option<Rc<Upload>>,
    /// Applied to trailers.
    scrub: Option<Scrub>,
}

/// Removes fields that must not be passed on.
pub type Scrub = fn(&mut HeaderMap);

/// The client's side of a request's body. It is shared by all who need to know how the body fares, and kept until it is
/// gone.
#[derive(Debug)]
pub struct Upload {
    /// The client's connection does not wait for a request as long as there is a body.
    _busy: Option<Busy>,
    /// The failure that it means for the request.
    broken: OnceCell<(Reason, String)>,
}

impl Upload {
    /// A body that is being read.
    pub fn new(busy: Option<Busy>) -> Self {
        Self {
            _busy: busy,
            broken: OnceCell::new(),
        }
    }

    /// The failure of a request whose body broke off: it is the client's, whatever came of it at the endpoint.
    pub fn failure(&self) -> Option<Error> {
        let (reason, detail) = self.broken.get()?;
        Some(Error::new(*reason).detail(detail.clone()))
    }

    /// Whether the body broke off.
    pub fn is_broken(&self) -> bool {
        self.broken.get().is_some()
    }
}

enum Kind {
    Empty,
    Incoming(Incoming),
    Replay(Replay),
}

/// How far a request's body has come, for those who measure.
#[derive(Debug)]
pub struct Progress {
    /// The sizes of its frames.
    pub frame_sizes: Histogram,
    /// When it ended.
    pub ended: Cell<Option<Instant>>,
}

impl RequestBody {
    /// No body.
    pub fn empty() -> Self {
        Self {
            kind: Kind::Empty,
            progress: None,
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
            progress: None,
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

    /// Reports the body's frames, unless it is empty.
    pub fn observe(&mut self, progress: impl FnOnce() -> Rc<Progress>) -> Option<Rc<Progress>> {
        if self.is_end_stream() {
            return None;
        }
        let progress = progress();
        self.progress = Some(progress.clone());
        Some(progress)
    }

    /// Makes a copy that yields the same frames, as long as they are no more than `limit` bytes.
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
        Some(Self {
            kind: Kind::Replay(copy),
            progress: self.progress.clone(),
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
                    // Of several readings the first tells.
                    let _ = upload.broken.set(error.request_failure());
                }
            }
            None => {}
        }
        if let Some(progress) = &self.progress {
            if let Some(Ok(frame)) = &frame
                && let Some(data) = frame.data_ref()
            {
                progress.frame_sizes.observe(data.len() as u64);
            }
            if frame.is_none() || self.is_end_stream() {
                progress.ended.set(Some(Instant::now()));
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Empty => true,
            Kind::Incoming(incoming) => incoming.is_end_stream(),
            Kind::Replay(replay) => replay.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Empty => SizeHint::with_exact(0),
            Kind::Incoming(incoming) => incoming.size_hint(),
            Kind::Replay(replay) => replay.size_hint(),
        }
    }
}
