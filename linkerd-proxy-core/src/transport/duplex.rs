//! Connections that may be plain sockets.

use super::{Peek, Pipe};
use crate::tls::EndpointTrust;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use std::{
    io,
    task::{Context, Poll},
};
use tokio::io::{AsyncRead, AsyncWrite};

/// A connection. On a plain socket, bytes may be moved without a copy, and readiness is awaited without a buffer.
pub trait Duplex: AsyncRead + AsyncWrite + Unpin {
    /// Whether the next bytes are in a plain socket, neither put back nor encrypted.
    fn is_socket(&self) -> bool {
        false
    }

    /// Whether [`poll_readable`](Self::poll_readable) waits for bytes, so that a connection can be idle without a buffer.
    fn awaits_bytes(&self) -> bool {
        self.is_socket()
    }

    /// Waits until there are bytes, an end or an error to read. Connections that cannot wait are always ready.
    fn poll_readable(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    /// Waits like [`poll_readable`](Self::poll_readable), but until bytes have certainly been received: the readiness of a plain
    /// socket may be an assumption. Costs a system call.
    fn poll_received(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_readable(cx)
    }

    /// A handle that sees received bytes before the runtime does; `None` if this is not a plain socket.
    fn peek(&self) -> Option<Peek> {
        None
    }

    /// The trust in the endpoint at the other end, if the connection is encrypted for it.
    fn endpoint_trust(&self) -> Option<EndpointTrust> {
        None
    }

    /// Makes the connection end with a reset when it is dropped, where the peer can see the difference.
    fn reset_on_drop(&mut self) {}

    /// Moves bytes from the connection into an empty pipe. 0 does not mean the end; only a read shows that.
    fn poll_fill(&mut self, _pipe: &mut Pipe, _cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    /// Moves bytes from a pipe to the connection.
    fn poll_empty(&mut self, _pipe: &mut Pipe, _cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }
}

impl Duplex for TokioIo<Upgraded> {}

impl Duplex for tokio::io::DuplexStream {}
