//! Attaches hyper to a socket, and detaches it while the connection is idle.
//!
//! hyper holds 26 KB for a connection: buffers, and a queue of requests. A proxy has a connection for each destination that
//! was used lately, so an idle connection frees this memory, and hyper is attached again for the next request. That costs
//! a microsecond.

use crate::{
    http::client::watched::{Watch, Watched},
    limits,
    transport::Io,
};
use bytes::Bytes;
use futures::{FutureExt, future::LocalBoxFuture};
use http_body::Body;
use hyper::{
    client::conn::http1::{self, SendRequest},
    upgrade::Upgraded,
};
use hyper_util::rt::TokioIo;
use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, AsyncWrite};

/// A connection with hyper, which must be polled.
pub(in crate::http::client) trait Attached<B> {
    /// Ready when the connection has ended.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// The connection as a separate future, which supports upgrades.
    fn detach(self: Box<Self>) -> LocalBoxFuture<'static, ()>;

    /// Detaches hyper from an idle connection. `None` if the connection has to be closed: the endpoint sent bytes without a
    /// request, or answered before it took the whole request.
    fn park(self: Box<Self>) -> Option<Box<dyn Parked<B>>>;
}

/// An idle connection without hyper. Not polled.
pub(in crate::http::client) trait Parked<B> {
    /// Attaches hyper again.
    fn attach(self: Box<Self>) -> Option<(SendRequest<B>, Box<dyn Attached<B>>)>;
}

/// Attaches hyper to a socket. `open` is dropped with the connection.
pub(in crate::http::client) async fn attach<I, B, G>(
    io: I,
    open: Option<G>,
) -> hyper::Result<(SendRequest<B>, Box<dyn Attached<B>>)>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    B: Body<Data = Bytes, Error: Into<crate::BoxError>> + 'static,
    G: 'static,
{
    let watch = Writes::default();
    let (sender, connection) = http1::Builder::new()
        .max_buf_size(limits::HTTP1_MAX_BUFFER)
        .max_headers(limits::HTTP1_MAX_HEADERS)
        // A proxy removes it from a response (RFC 9112, section 5.1); in a request it is refused.
        .allow_spaces_after_header_name_in_responses(true)
        .handshake(TokioIo::new(Watched::new(io, watch)))
        .await?;
    Ok((sender, Box::new(Socket { connection, open })))
}

/// The connection to an endpoint beneath hyper's upgrade, and the bytes that hyper has read ahead.
pub(in crate::http) fn upgraded_io(upgraded: Upgraded) -> Result<(Io, Bytes), Upgraded> {
    let parts = upgraded.downcast::<TokioIo<Watched<Io, Writes>>>()?;
    // A connection whose writes have failed fails the next one anew.
    Ok((parts.io.into_inner().io, parts.read_buf))
}

struct Socket<I, B, G>
where
    I: AsyncRead + AsyncWrite + Unpin,
    B: Body + 'static,
{
    connection: http1::Connection<TokioIo<Watched<I, Writes>>, B>,
    open: Option<G>,
}

struct Idle<I, G> {
    io: I,
    open: Option<G>,
}

impl<I, B, G> Attached<B> for Socket<I, B, G>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    B: Body<Data = Bytes, Error: Into<crate::BoxError>> + 'static,
    G: 'static,
{
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let ended = ready!(Pin::new(&mut self.connection).poll(cx));
        self.open = None;
        ended_with(ended);
        Poll::Ready(())
    }

    fn detach(self: Box<Self>) -> LocalBoxFuture<'static, ()> {
        let open = self.open;
        let served = self.connection.with_upgrades().map(move |ended| {
            drop(open);
            ended_with(ended);
        });
        served.boxed_local()
    }

    fn park(self: Box<Self>) -> Option<Box<dyn Parked<B>>> {
        let parts = self.connection.into_parts();
        let (io, watch) = parts.io.into_inner().into_parts();
        if watch.wait || !parts.read_buf.is_empty() {
            return None;
        }
        let (io, open) = (io?, self.open);
        Some(Box::new(Idle { io, open }))
    }
}

impl<I, B, G> Parked<B> for Idle<I, G>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    B: Body<Data = Bytes, Error: Into<crate::BoxError>> + 'static,
    G: 'static,
{
    fn attach(self: Box<Self>) -> Option<(SendRequest<B>, Box<dyn Attached<B>>)> {
        // HTTP/1 begins without bytes from either side, so the handshake waits for nothing.
        attach(self.io, self.open).now_or_never()?.ok()
    }
}

/// Notes whether hyper has more to write.
#[derive(Default)]
struct Writes {
    /// The last write found no room.
    wait: bool,
}

impl Watch for Writes {
    fn was_written(&mut self, waits: bool) {
        self.wait = waits;
    }
}

fn ended_with(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "endpoint connection ended");
    }
}
