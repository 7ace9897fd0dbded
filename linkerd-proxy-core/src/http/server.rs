//! Serving a client's connection.

use super::{FlowControl, Http2Settings, LocalExec};
use crate::{drain, limits, transport::Io};
use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::Service,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{
    cell::Cell,
    future::poll_fn,
    pin::{Pin, pin},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::io::{AsyncRead, AsyncWrite};

/// How clients are served.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// How long the headers of a request may take once they have begun. A connection that is idle between requests may
    /// stay as long as it likes.
    pub header_timeout: Duration,
    /// Settings of HTTP/2.
    pub http2: Http2Settings,
}

/// A client's connection, as those who serve its requests see it.
#[derive(Debug, Default)]
pub struct Connection {
    /// Bytes were read that belong to no request yet.
    reads: Arc<AtomicBool>,
    /// Messages that are being read or written.
    busy: Cell<u32>,
    close: Cell<bool>,
}

/// Keeps a connection from being taken for one that waits for a request.
#[derive(Debug)]
pub struct Busy(Rc<Connection>);

/// Why serving a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The protocol failed, or the connection did.
    #[error(transparent)]
    Http(#[from] hyper::Error),
    /// The client did not end its headers in time.
    #[error("the request's headers took longer than {0:?}")]
    HeaderTimeout(Duration),
}

impl Connection {
    /// Ends the connection gracefully: what is in flight is finished.
    pub fn close(&self) {
        self.close.set(true);
    }

    /// A request has begun.
    pub fn busy(self: &Rc<Self>) -> Busy {
        self.reads.store(false, Relaxed);
        self.busy.set(self.busy.get() + 1);
        Busy(self.clone())
    }

    fn reads_headers(&self) -> bool {
        self.busy.get() == 0 && self.reads.load(Relaxed)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let connection = &self.0;
        connection.busy.set(connection.busy.get() - 1);
        if connection.busy.get() == 0 {
            // What was read until now was the request's body.
            connection.reads.store(false, Relaxed);
        }
    }
}

/// Serves HTTP/1 until the connection ends, or gracefully until its present exchange is over when `drain` tells.
pub async fn serve_http1<I, S, B>(
    mut io: Io<I>,
    service: S,
    settings: &ServerSettings,
    connection: Rc<Connection>,
    drain: drain::Watch,
) -> Result<(), ServeError>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>, Error = h2::Error>,
    B: Body<Data = Bytes, Error = hyper::Error> + 'static,
{
    io.watch_reads(connection.reads.clone());
    let serve = http1::Builder::new()
        .timer(TokioTimer::new())
        // hyper's limit runs while a connection is idle, too; ours does not.
        .header_read_timeout(None)
        .max_buf_size(limits::HTTP1_MAX_BUFFER)
        .max_headers(limits::HTTP1_MAX_HEADERS)
        .serve_connection(TokioIo::new(io), service)
        .with_upgrades();
    run(serve, settings.header_timeout, connection, drain).await
}

/// Serves HTTP/2 until the connection ends, or gracefully until its streams have ended when `drain` tells.
pub async fn serve_http2<I, S, B>(
    io: Io<I>,
    service: S,
    settings: &ServerSettings,
    connection: Rc<Connection>,
    drain: drain::Watch,
) -> Result<(), ServeError>
where
    I: AsyncRead + AsyncWrite + Unpin + 'static,
    S: Service<Request<Incoming>, Response = Response<B>, Error = h2::Error>,
    S::Future: 'static,
    B: Body<Data = Bytes, Error = hyper::Error> + 'static,
{
    let serve = http2_builder(&settings.http2).serve_connection(TokioIo::new(io), service);
    run(serve, settings.header_timeout, connection, drain).await
}

fn http2_builder(settings: &Http2Settings) -> http2::Builder<LocalExec> {
    let mut builder = http2::Builder::new(LocalExec);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(settings.max_concurrent_streams)
        .max_header_list_size(
            settings
                .max_header_list_size
                .unwrap_or(limits::HTTP2_SERVER_HEADER_LIST),
        )
        .max_send_buf_size(
            settings
                .max_send_buf_size
                .unwrap_or(limits::HTTP2_SERVER_SEND_BUFFER),
        )
        .max_local_error_reset_streams(limits::HTTP2_LOCAL_ERROR_RESET_STREAMS)
        .max_pending_accept_reset_streams(
            settings
                .max_pending_accept_reset_streams
                .unwrap_or(limits::HTTP2_PENDING_ACCEPT_RESET_STREAMS),
        );
    match settings.flow_control {
        Some(FlowControl::Adaptive) => {
            builder.adaptive_window(true);
        }
        Some(FlowControl::Fixed { stream, connection }) => {
            builder
                .initial_stream_window_size(stream)
                .initial_connection_window_size(connection);
        }
        None => {
            builder
                .initial_stream_window_size(limits::HTTP2_STREAM_WINDOW)
                .initial_connection_window_size(limits::HTTP2_CONNECTION_WINDOW);
        }
    }
    if let Some(keep_alive) = settings.keep_alive {
        builder
            .keep_alive_interval(keep_alive.interval)
            .keep_alive_timeout(keep_alive.timeout);
    }
    if let Some(size) = settings.max_frame_size {
        builder.max_frame_size(size);
    }
    builder
}

/// hyper's two kinds of server connections.
trait Graceful: Future<Output = Result<(), hyper::Error>> {
    fn graceful_shutdown(self: Pin<&mut Self>);
}

impl<I, S, B> Graceful for http1::UpgradeableConnection<I, S>
where
    Self: Future<Output = Result<(), hyper::Error>>,
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>, Error = h2::Error>,
    B: Body<Data = Bytes, Error = hyper::Error> + 'static,
{
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
    B: Body<Data = Bytes, Error = hyper::Error> + 'static,
{
    fn graceful_shutdown(self: Pin<&mut Self>) {
        http2::Connection::graceful_shutdown(self);
    }
}

async fn run(
    serve: impl Graceful,
    header_timeout: Duration,
    connection: Rc<Connection>,
    drain: drain::Watch,
) -> Result<(), ServeError> {
    let mut serve = pin!(serve);
    let mut watch = drain.clone();
    let mut drained = pin!(watch.signaled());
    let mut waits = false;
    let mut closing = false;
    let mut headers = HeaderTimer::new(header_timeout);
    poll_fn(|cx| {
        loop {
            if let Poll::Ready(ended) = serve.as_mut().poll(cx) {
                return Poll::Ready(ended.map_err(ServeError::from));
            }
            // It is polled once, to be woken by; after that a look at the flag is enough.
            let draining = match waits {
                true => drain.is_draining(),
                false => drained.as_mut().poll(cx).is_ready(),
            };
            waits = true;
            if closing || !(connection.close.get() || draining) {
                break;
            }
            closing = true;
            serve.as_mut().graceful_shutdown();
        }
        if connection.reads_headers() {
            ready!(headers.poll(cx));
            return Poll::Ready(Err(ServeError::HeaderTimeout(header_timeout)));
        }
        headers.stop();
        Poll::Pending
    })
    .await
}

/// Runs while headers are being read, and costs nothing when they come in one piece.
struct HeaderTimer {
    timeout: Duration,
    sleep: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl HeaderTimer {
    fn new(timeout: Duration) -> Self {
        let sleep = None;
        Self { timeout, sleep }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let timeout = self.timeout;
        let sleep = self
            .sleep
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        sleep.as_mut().poll(cx)
    }

    fn stop(&mut self) {
        self.sleep = None;
    }
}
