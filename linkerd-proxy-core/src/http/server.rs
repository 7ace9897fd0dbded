//! Servers of clients' connections.

mod connection;
mod error;
mod lent;
mod linger;
mod refusal;
mod run;

use self::lent::LentIo;
use super::{HalfSent, Http2Settings, Responder, idle::IdleTimer, merged::Merged};
use crate::{
    drain, limits,
    transport::{Activity, Duplex, Io},
};
use bytes::Bytes;
pub use connection::{Busy, Connection, Uploading};
pub use error::ServeError;
use http::{Request, Response};
use http_body::Body;
use hyper::{body::Incoming, server::conn::http1, service::Service};
use hyper_util::rt::{TokioIo, TokioTimer};
pub use refusal::refuse;
use run::{RunEnd, run};
use std::{
    future::poll_fn,
    pin::{Pin, pin},
    rc::Rc,
    sync::Arc,
    task::Poll,
    time::Duration,
};
use tokio::io::{AsyncRead, AsyncWrite};

/// Settings of the server towards clients.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Time for the headers of a request once they have begun. A connection may be idle between requests for any time.
    pub header_timeout: Duration,
    /// Settings of HTTP/2.
    pub http2: Http2Settings,
    /// Requests whose heads have not arrived completely.
    pub half_sent: HalfSent,
}

/// Serves HTTP/1 until the connection ends, or gracefully after its present exchange when `drain` is signalled.
///
/// hyper holds 16 KiB of buffers for each connection. A connection that waits for a request for a while frees them: hyper
/// is detached from the socket, and attached again when bytes come.
pub async fn serve_http1<I, S, B>(
    mut io: Io<I>,
    mut service: S,
    settings: &ServerSettings,
    connection: Rc<Connection>,
    drain: drain::Watch,
) -> Result<(), ServeError>
where
    I: Duplex + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>, Error = h2::Error>,
    B: Body<Data = Bytes, Error: Into<crate::BoxError>> + 'static,
{
    io.watch(connection.activity.clone());
    loop {
        if !io.prefix().is_empty()
            && let Err(late) = settings
                .half_sent
                .gather(&mut io, settings.header_timeout)
                .await
        {
            let responder = connection.refusals();
            // In a box, here and below: few connections end so, and all would have to reserve its space.
            return Box::pin(end(io, Err(late.into()), responder, drain)).await;
        }
        if connection.refusals().is_some() {
            connection.activity.hold_refusals();
        }
        let idle = io.inner().awaits_bytes().then(|| IdleTimer::new(IDLE));
        let client = io.inner().peek();
        let mut serve = http1::Builder::new()
            // A client may end its side after its request (RFC 9112, section 9.6). hyper does not notice then that it has left.
            .half_close(client.is_some())
            .timer(TokioTimer::new())
            // hyper's limit runs while a connection is idle, too; ours does not.
            .header_read_timeout(None)
            .max_buf_size(limits::HTTP1_MAX_BUFFER)
            .max_headers(limits::HTTP1_MAX_HEADERS)
            .serve_connection(TokioIo::new(io), service)
            .with_upgrades();
        let timeout = settings.header_timeout;
        let ran = run(
            Pin::new(&mut serve),
            timeout,
            idle,
            client,
            None,
            &connection,
            &drain,
        )
        .await;
        let refusal = connection.activity.take_refusal();
        if let RunEnd::Ended { ended, was_idle } = ran {
            let ended = match (ended, refusal) {
                (Err(ServeError::Http(error)), Some(status)) => {
                    Err(ServeError::refused(status, error))
                }
                (ended, _) => ended,
            };
            let is_late = matches!(ended, Err(ServeError::HeaderTimeout(_)));
            let has_left = matches!(
                ended,
                Err(ServeError::ClientLeft(_) | ServeError::ClientFailed(_))
            );
            // There are no parts after an upgrade.
            if let Some(parts) = serve.into_parts() {
                let responder = connection.refusals();
                let responder = responder.map(|responder| responder.unless_head(&parts.read_buf));
                io = parts.io.into_inner();
                if connection.broken.get() || has_left {
                    io.reset_on_drop();
                } else if is_late || refusal.is_some() || !was_idle && !io.has_ended() {
                    return Box::pin(end(io, ended, responder, drain)).await;
                }
            }
            return ended;
        }
        let Some(parts) = serve.into_parts() else {
            return Ok(());
        };
        (io, service) = (parts.io.into_inner(), parts.service);
        if !parts.read_buf.is_empty() {
            // A copy, which does not keep hyper's buffer alive.
            io.put_back(Bytes::copy_from_slice(&parts.read_buf));
        }
        drop(parts.read_buf);
        connection.parked.set(true);
        readable(&mut io, drain.clone()).await;
        connection.parked.set(false);
    }
}

/// Closes a connection on the proxy's side while its client may still send, and returns `served`. A request that was refused
/// before a stage saw it is answered by `responder`.
async fn end<I>(
    mut io: Io<I>,
    served: Result<(), ServeError>,
    responder: Option<Responder>,
    drain: drain::Watch,
) -> Result<(), ServeError>
where
    I: AsyncRead + AsyncWrite + Unpin,
{
    let (patience, responder) = match &served {
        // The method of a head that is not whole may be HEAD, whose responses have no body.
        Err(ServeError::HeaderTimeout(_) | ServeError::HalfSentLimit(_)) => {
            (linger::SHORT, responder.map(Responder::without_text))
        }
        _ => (linger::LONG, responder),
    };
    if let Err(error) = &served
        && !matches!(error, ServeError::Http(_))
        && let Some(failure) = error.failure()
    {
        refuse(&mut io, responder, &failure).await;
    }
    if !io.has_ended() {
        linger::close(io, patience, drain).await;
    }
    served
}

/// Waits until a connection is readable, or `drain` is signalled.
async fn readable(io: &mut impl Duplex, mut drain: drain::Watch) {
    let mut drained = pin!(drain.signaled());
    poll_fn(|cx| match io.poll_readable(cx) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => drained.as_mut().poll(cx),
    })
    .await;
}

/// Serves HTTP/2 until the connection ends, or gracefully after its streams when `drain` is signalled.
///
/// hyper's connection is in a box: it is twice as large as that of HTTP/1, and a task reserves space for its largest state.
pub async fn serve_http2<I, S, B>(
    mut io: Io<I>,
    service: S,
    settings: &ServerSettings,
    connection: Rc<Connection>,
    drain: drain::Watch,
) -> Result<(), ServeError>
where
    I: AsyncRead + AsyncWrite + Unpin + 'static,
    S: Service<Request<Incoming>, Response = Response<B>, Error = h2::Error>,
    S::Future: 'static,
    B: Body<Data = Bytes, Error: Into<crate::BoxError>> + 'static,
{
    let builder = settings.http2.server();
    let activity = Arc::new(Activity::default());
    io.watch(activity.clone());
    let (io, returned) = LentIo::new(io);
    let mut serve =
        Box::pin(builder.serve_connection(TokioIo::new(Merged::of_client(io)), service));
    let timeout = settings.header_timeout;
    let ran = run(
        serve.as_mut(),
        timeout,
        None,
        None,
        Some(&activity),
        &connection,
        &drain,
    )
    .await;
    drop(serve);
    match ran {
        RunEnd::Ended { ended, was_idle } => match returned.take() {
            Some(io) if !was_idle && !io.has_ended() => Box::pin(end(io, ended, None, drain)).await,
            _ => ended,
        },
        RunEnd::Idle => Ok(()),
    }
}

/// Time that a connection waits for a request before its buffers are freed: longer than the pauses of a connection in use, as
/// new buffers cost a microsecond.
const IDLE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests;
