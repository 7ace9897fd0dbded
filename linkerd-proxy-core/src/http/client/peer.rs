//! The settings of an HTTP/2 peer, read before its connection is used.

use super::{failure::classify, watched::Watch};
use crate::{Error, Reason, http::LocalExec, limits};
use bytes::Bytes;
use http_body::Body;
use hyper::client::conn::http2;
use hyper_util::rt::TokioIo;
use smallvec::SmallVec;
use std::{
    cell::Cell,
    future::poll_fn,
    pin::Pin,
    rc::{Rc, Weak},
    task::Poll,
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::Notify,
    time::{Instant, timeout},
};

/// Watches the first bytes of an HTTP/2 peer, and notifies the listener, if there is one, of each read.
pub(super) struct Reads {
    listener: Weak<Notify>,
    /// The first bytes, until they decide the protocol; `None` afterwards.
    first: Option<SmallVec<[u8; FIRST]>>,
    peer: Rc<Peer>,
}

/// The peer, as recognized by its first bytes.
#[derive(Default)]
pub(super) struct Peer {
    speaks_http1: Cell<bool>,
}

impl Reads {
    /// A watch of a connection, the notification of its reads, and its peer.
    pub(super) fn new() -> (Self, Rc<Notify>, Rc<Peer>) {
        let (notify, peer) = (Rc::new(Notify::new()), Rc::new(Peer::default()));
        let reads = Self {
            listener: Rc::downgrade(&notify),
            first: Some(SmallVec::new()),
            peer: peer.clone(),
        };
        (reads, notify, peer)
    }
}

impl Peer {
    /// The failure of a connection: `EndpointSpeaksHttp1` if the peer answered the HTTP/2 preface in HTTP/1, else `error`.
    pub(super) fn explain(&self, error: Error) -> Error {
        match self.speaks_http1.get() {
            true => Error::new(Reason::EndpointSpeaksHttp1).source(error),
            false => error,
        }
    }

    pub(super) fn speaks_http1(&self) -> bool {
        self.speaks_http1.get()
    }
}

impl Watch for Reads {
    fn was_read(&mut self, buf: &ReadBuf<'_>, before: usize) {
        if let Some(first) = &mut self.first {
            let (bytes, room) = (&buf.filled()[before..], FIRST - first.len());
            first.extend_from_slice(&bytes[..bytes.len().min(room)]);
            if HTTP1.iter().any(|start| first.starts_with(start)) {
                self.peer.speaks_http1.set(true);
                self.first = None;
            } else if first.len() == FIRST {
                self.first = None;
            }
        }
        if let Some(heard) = self.listener.upgrade() {
            heard.notify_one();
        }
    }
}

/// Waits for the peer's settings: they carry its stream limit, and show that the peer speaks HTTP/2 at all.
///
/// hyper processes the settings without waking the caller. So the limit is checked after each read, and now and then in case
/// hyper could not process the bytes at once. A timer alone would add a millisecond or two to the first request of each
/// connection.
pub async fn peer_limit<I, B>(
    connection: &mut http2::Connection<TokioIo<I>, B, LocalExec>,
    heard: Rc<Notify>,
) -> Result<usize, Error>
where
    I: AsyncRead + AsyncWrite + Unpin + 'static,
    B: Body<Data = Bytes, Error: Into<crate::BoxError>> + Unpin + 'static,
{
    let deadline = Instant::now() + limits::HTTP2_SETTINGS_WAIT;
    loop {
        match poll_fn(|cx| Poll::Ready(Pin::new(&mut *connection).poll(cx))).await {
            Poll::Pending => {}
            Poll::Ready(Ok(())) => {
                let detail = "the endpoint closed the connection before it sent HTTP/2 settings";
                return Err(Error::new(Reason::ConnectionLost).detail(detail));
            }
            Poll::Ready(Err(error)) => return Err(classify(error)),
        }
        match connection.current_max_send_streams() {
            limits::HTTP2_UNKNOWN_STREAM_LIMIT if Instant::now() < deadline => {}
            limit => return Ok(limit),
        }
        // A read and a timeout mean the same: check again.
        let _ = timeout(LOOK, heard.notified()).await;
    }
}

/// The beginnings of an answer in HTTP/1: a status line, or the error page, which some servers send alone to an unknown
/// version. No HTTP/2 frame begins so: its length would be megabytes.
const HTTP1: [&[u8]; 2] = [b"HTTP/1.", b"<!DOCTYPE"];

/// The length of the longest beginning.
const FIRST: usize = 9;

/// The time between two checks for settings when nothing is read.
const LOOK: Duration = Duration::from_millis(20);
