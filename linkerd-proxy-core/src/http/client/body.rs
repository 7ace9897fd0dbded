//! The body of an endpoint's response, which holds its connection until it ends.

use super::uploading::UploadWatch;
use crate::{http::observe::Now, task::spawn_local};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{runtime::Handle, time::timeout};

/// An endpoint's response body, and the connection that it holds until it ends.
pub(in crate::http) struct ClientBody {
    incoming: Incoming,
    lease: Option<Box<dyn Lease>>,
    ended: bool,
    stream: Option<StreamBody>,
}

/// The state of a body of an HTTP/2 stream.
pub(in crate::http) struct StreamBody {
    /// The watch of the request's body, if it has one.
    pub(in crate::http) upload: Option<UploadWatch>,
}

/// A frame of an endpoint's body, its error, or its end.
pub(in crate::http) type PolledFrame = Poll<Option<Result<Frame<Bytes>, hyper::Error>>>;

/// A connection, or a stream of one, that an exchange holds. Dropping the lease releases it.
pub(in crate::http) trait Lease {
    /// Polls the next frame of the response's body, and drives its connection for that if the connection has no task.
    fn poll_frame(&mut self, incoming: &mut Incoming, cx: &mut Context<'_>) -> PolledFrame {
        Pin::new(incoming).poll_frame(cx)
    }

    /// The exchange is complete, as of now.
    fn complete(self: Box<Self>, now: &Now);
}

impl ClientBody {
    pub(in crate::http) fn new(
        incoming: Incoming,
        lease: Box<dyn Lease>,
        stream: Option<StreamBody>,
    ) -> Self {
        let mut body = Self {
            incoming,
            lease: Some(lease),
            ended: false,
            stream,
        };
        body.complete_at_end(&Now::default());
        body
    }

    /// The body alone; its connection does not wait for its end. Only for HTTP/2: an HTTP/1 body drives its connection.
    pub(in crate::http) fn into_incoming(self) -> Incoming {
        self.incoming
    }

    /// Whether the end has been seen. With HTTP/2, asking hyper anew takes a lock of the connection.
    pub(in crate::http) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether a body without a further frame was cut short, as far as can be known.
    ///
    /// hyper reports a stream as ended if it is reset with `NO_ERROR`, or left out by a GOAWAY with this code: an endpoint may stop
    /// a request's body this way, after the whole response (RFC 9113, section 8.1). For such a response only a content length
    /// shows whether it is whole; it counts as cut short if the whole request had been sent.
    pub(in crate::http) fn is_cut_short(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| {
            let upload = stream.upload.as_ref();
            let was_sent = upload.is_none_or(UploadWatch::was_sent);
            let lacks_some = || self.size_hint().lower() > 0;
            !self.incoming.is_end_stream() && (was_sent || lacks_some())
        })
    }

    /// Releases the body, before its end or after it.
    ///
    /// The response to an unfinished upload is read on for a while. If it were dropped, the endpoint might wait for a reader of
    /// the response before it reads the request: an upload that waits for the endpoint's window does not notice that its client
    /// has gone, and holds the window of all other uploads of the connection.
    pub(in crate::http) fn give_up(self) {
        let upload = self.stream.as_ref().and_then(|it| it.upload.as_ref());
        let uploads = upload.is_some_and(UploadWatch::goes_on);
        // At the end of a runtime its connections end, too.
        if uploads && !self.ended && Handle::try_current().is_ok() {
            spawn_local(timeout(GIVEN_UP, self.discard()));
        }
    }

    /// Reads to the end, which comes soon after the request's body has noticed that its client has gone.
    async fn discard(mut self) {
        let mut bytes = 0;
        while bytes < MAX_DISCARDED {
            let frame = poll_fn(|cx| self.poll_frame(cx, &Now::default())).await;
            match frame {
                Some(Ok(frame)) => bytes += frame.data_ref().map_or(0, Bytes::len),
                Some(Err(_)) | None => return,
            }
        }
    }

    /// Polls the next frame. `now` is the time of the event, for all observers.
    pub(in crate::http) fn poll_frame(&mut self, cx: &mut Context<'_>, now: &Now) -> PolledFrame {
        let frame = ready!(match &mut self.lease {
            Some(lease) => lease.poll_frame(&mut self.incoming, cx),
            None => Pin::new(&mut self.incoming).poll_frame(cx),
        });
        match &frame {
            None => self.complete(now),
            // The codec does not poll again after trailers.
            Some(Ok(frame)) if frame.is_trailers() => self.complete(now),
            Some(Ok(_)) => self.complete_at_end(now),
            Some(Err(_)) => self.lease = None,
        }
        Poll::Ready(frame)
    }

    pub(in crate::http) fn is_end_stream(&self) -> bool {
        self.ended || self.incoming.is_end_stream()
    }

    pub(in crate::http) fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }

    fn complete_at_end(&mut self, now: &Now) {
        if self.incoming.is_end_stream() {
            self.complete(now);
        }
    }

    fn complete(&mut self, now: &Now) {
        self.ended = true;
        if let Some(lease) = self.lease.take() {
            lease.complete(now);
        }
    }
}

/// Time for an endpoint to go on with the request once the response has no reader.
const GIVEN_UP: Duration = Duration::from_secs(30);

/// Most bytes of a response that are read and discarded.
const MAX_DISCARDED: usize = 16 * 1024 * 1024;

impl std::fmt::Debug for ClientBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.incoming.fmt(f)
    }
}
