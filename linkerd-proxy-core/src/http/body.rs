//! The bodies of requests on their way to an endpoint.

use super::replay::Replay;
use crate::metrics::Histogram;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use std::{
    any::Any,
    cell::Cell,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};
use tokio::time::Instant;

/// A request's body.
pub struct RequestBody {
    kind: Kind,
    progress: Option<Rc<Progress>>,
    /// Kept until the body is gone.
    guard: Option<Rc<dyn Any>>,
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
            guard: None,
        }
    }

    /// A client's body. `guard` is kept until the body is gone.
    pub fn new(incoming: Incoming, guard: impl FnOnce() -> Rc<dyn Any>) -> Self {
        if incoming.is_end_stream() {
            return Self::empty();
        }
        Self {
            kind: Kind::Incoming(incoming),
            progress: None,
            guard: Some(guard()),
        }
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
            guard: self.guard.clone(),
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
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = match &mut self.kind {
            Kind::Empty => return Poll::Ready(None),
            Kind::Incoming(incoming) => ready!(Pin::new(incoming).poll_frame(cx)),
            Kind::Replay(replay) => ready!(Pin::new(replay).poll_frame(cx)),
        };
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
