//! Running hyper's server connections: graceful shutdown, header timeout, idleness.

use super::{Connection, ServeError};
use crate::{
    drain,
    http::{LocalExec, idle::IdleTimer},
    limits,
    transport::{Activity, Peek},
};
use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::Service,
};
use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{Instant, Sleep};

/// A server connection of hyper's, of either version.
pub(super) trait Graceful: Future<Output = Result<(), hyper::Error>> {
    /// Whether the connection serves one request after the other.
    const IS_SERIAL: bool;

    fn graceful_shutdown(self: Pin<&mut Self>);
}

impl<I, S, B> Graceful for http1::UpgradeableConnection<I, S>
where
    Self: Future<Output = Result<(), hyper::Error>>,
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>, Error = h2::Error>,
    B: Body<Data = Bytes, Error: Into<crate::BoxError>> + 'static,
{
    const IS_SERIAL: bool = true;

    fn graceful_shutdown(self: Pin<&mut Self>) {
        http1::UpgradeableConnection::graceful_shutdown(self);
    }
}

impl<I, S, B> Graceful for http2::Connection<I, S, LocalExec>
where
    Self: Future<Output = Result<(), hyper::Error>>,
    I: hyper::rt::Read + hyper::rt::Write + Unpin,
    S: Service<Request<Incoming>, Response = Response<B>, Error = h2::Error>,
    S::Future: 'static,
    B: Body<Data = Bytes, Error: Into<crate::BoxError>> + 'static,
{
    const IS_SERIAL: bool = false;

    fn graceful_shutdown(self: Pin<&mut Self>) {
        http2::Connection::graceful_shutdown(self);
    }
}

/// The end of running a connection.
pub(super) enum RunEnd {
    Ended {
        ended: Result<(), ServeError>,
        /// Whether the proxy ended the connection between two requests, for its own shutdown.
        was_idle: bool,
    },
    /// The connection has waited for a request for a while.
    Idle,
}

/// Polls a connection until it ends, or until it has been idle for a while. `client` is the socket of a client that may end its side
/// after a request and still read the response. `drain` ends the connection gracefully: with
/// `pinged`, which sees its reads, by a PING that a live client answers.
pub(super) async fn run<C: Graceful>(
    mut serve: Pin<&mut C>,
    header_timeout: Duration,
    mut idle: Option<IdleTimer>,
    client: Option<Peek>,
    pinged: Option<&Activity>,
    connection: &Connection,
    drain: &drain::Watch,
) -> RunEnd {
    let mut watch = drain.clone();
    let mut drained = pin!(watch.signaled());
    let mut waits = false;
    let mut closing = false;
    let mut was_idle = false;
    let mut timer = RunTimer::default();
    let mut poll = |cx: &mut Context<'_>| {
        loop {
            if let Poll::Ready(ended) = serve.as_mut().poll(cx) {
                let ended = ended.map_err(ServeError::from);
                return Poll::Ready(RunEnd::Ended { ended, was_idle });
            }
            // Polled once, to register the waker; after that the flag is enough.
            let draining = match waits {
                true => drain.is_draining(),
                false => drained.as_mut().poll(cx).is_ready(),
            };
            waits = true;
            if closing {
                break;
            }
            // hyper may wait for the next head before it delivers the end of an upload, if the upload had unannounced trailers (see
            // `Connection::uploading`). Such an upload is broken off, as hyper does not let it end otherwise.
            let outlasts = C::IS_SERIAL && connection.only_uploads();
            if outlasts && connection.activity.was_read() {
                connection.activity.forget_reads();
                timer.stop();
            }
            if outlasts && timer.poll(UPLOAD_PAUSE, cx).is_ready() {
                connection.close();
            }
            if !connection.close.get() && !draining {
                break;
            }
            closing = true;
            was_idle = !connection.close.get() && connection.is_idle();
            if let Some(activity) = pinged {
                activity.forget_reads();
            }
            serve.as_mut().graceful_shutdown();
        }
        if C::IS_SERIAL && connection.only_uploads() {
            return Poll::Pending;
        }
        if connection.reads_headers() {
            // The rest of a head is awaited without hyper, where that is possible.
            let leaves = idle.is_some() && !closing && connection.activity.is_flushed();
            let pause = if leaves {
                HALF_SENT_PAUSE
            } else {
                header_timeout
            };
            ready!(timer.poll(pause.min(header_timeout), cx));
            let ended = Err(ServeError::HeaderTimeout(header_timeout));
            return Poll::Ready(match leaves {
                true => RunEnd::Idle,
                false => RunEnd::Ended { ended, was_idle },
            });
        }
        // hyper waits for the answer to its PING without a limit.
        let has_left = |activity: &Activity| activity.is_flushed() && !activity.was_read();
        if closing && connection.awaits_request() && pinged.is_some_and(has_left) {
            ready!(timer.poll(limits::PEER_PING_TIMEOUT, cx));
            let ended = Ok(());
            return Poll::Ready(RunEnd::Ended { ended, was_idle });
        }
        // The end of the client's side alone, or of a client that has left: only bytes to the client would show the difference.
        if let Some(client) = &client
            && connection.awaits_response()
            && let Poll::Ready(end) = client.poll_ended(cx)
        {
            let activity = &connection.activity;
            let ended = match end {
                Err(error) => {
                    activity.note_failure(&error);
                    ServeError::ClientFailed(error)
                }
                Ok(()) => {
                    if activity.take_written() || !activity.is_flushed() {
                        timer.stop();
                    }
                    ready!(timer.poll(HALF_CLOSED, cx));
                    ServeError::ClientLeft(HALF_CLOSED)
                }
            };
            let ended = Err(ended);
            return Poll::Ready(RunEnd::Ended { ended, was_idle });
        }
        timer.stop();
        match &mut idle {
            Some(idle) if !closing => idle.poll(connection, cx).map(|()| RunEnd::Idle),
            _ => Poll::Pending,
        }
    };
    poll_fn(|cx| connection.polled(cx, &mut poll)).await
}

/// Runs while headers are being read, or while an upload outlasts its response, and costs nothing when headers come in one
/// piece.
#[derive(Default)]
struct RunTimer {
    sleep: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl RunTimer {
    /// Ready when it has run for `timeout`.
    fn poll(&mut self, timeout: Duration, cx: &mut Context<'_>) -> Poll<()> {
        let (since, sleep) = self
            .sleep
            .get_or_insert_with(|| (Instant::now(), Box::pin(tokio::time::sleep(timeout))));
        let deadline = *since + timeout;
        if sleep.deadline() != deadline {
            sleep.as_mut().reset(deadline);
        }
        sleep.as_mut().poll(cx)
    }

    fn stop(&mut self) {
        self.sleep = None;
    }
}

/// Time without any bytes of an upload that outlasts its response. After it, the connection serves no other request.
const UPLOAD_PAUSE: Duration = Duration::from_secs(1);

/// Time without any byte of a response, after its client has ended its side. Most clients that do so have left, and their requests are
/// given up then; the others wait for a response that comes later in vain.
const HALF_CLOSED: Duration = Duration::from_secs(10);

/// Time that hyper waits for the rest of a head before it is detached from the socket.
const HALF_SENT_PAUSE: Duration = Duration::from_millis(100);
