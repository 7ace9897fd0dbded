//! What an HTTP/2 peer tells of itself before it is used.

use super::{failure::classify, watched::Watch};
use crate::{Error, http::LocalExec, limits};
use bytes::Bytes;
use http_body::Body;
use hyper::client::conn::http2;
use hyper_util::rt::TokioIo;
use std::{
    future::poll_fn,
    pin::Pin,
    rc::{Rc, Weak},
    task::Poll,
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::Notify,
    time::{Instant, timeout},
};

/// Tells when something was read, as long as somebody listens.
pub(super) struct Reads(Weak<Notify>);

impl Reads {
    /// What watches a connection, and what is notified by it.
    pub(super) fn new() -> (Self, Rc<Notify>) {
        let notify = Rc::new(Notify::new());
        (Self(Rc::downgrade(&notify)), notify)
    }
}

impl Watch for Reads {
    fn was_read(&mut self) {
        if let Some(heard) = self.0.upgrade() {
            heard.notify_one();
        }
    }
}

/// Waits for the peer's settings: they tell how many streams it takes, and that it speaks HTTP/2 at all.
///
/// hyper reads the connection in a task of its own, which wakes nobody when settings come. So they are looked for
/// whenever something was read, and now and then in case hyper could not make use of it at once. A timer alone would add
/// a millisecond or two to the first request of each connection.
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
                return Err(Error::new(crate::Reason::ConnectionLost).detail(detail));
            }
            Poll::Ready(Err(error)) => return Err(classify(error)),
        }
        match connection.current_max_send_streams() {
            limits::HTTP2_UNKNOWN_STREAM_LIMIT if Instant::now() < deadline => {}
            limit => return Ok(limit),
        }
        // Whether something was read or not, the next look tells.
        let _ = timeout(LOOK, heard.notified()).await;
    }
}

/// Between two looks for settings when nothing is read.
const LOOK: Duration = Duration::from_millis(20);
