//! Connections that may be plain sockets.

use super::{Peek, Pipe};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use std::{
    io,
    task::{Context, Poll},
};
use tokio::io::{AsyncRead, AsyncWrite};

/// A connection. If it is a plain socket, bytes may be moved from and to it without a copy, and it can be waited for
/// without a buffer.
pub trait Duplex: AsyncRead + AsyncWrite + Unpin {
    /// Whether what comes next is in a plain socket: what was put back has to be read first, and what is encrypted, too.
    fn is_socket(&self) -> bool {
        false
    }

    /// Waits until there is something to read, or an end or an error of which reading tells. Of a plain socket only;
    /// others say that there is.
    fn poll_readable(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    /// A handle that looks for bytes of which the runtime does not know yet; `None` if it is no plain socket.
    fn peek(&self) -> Option<Peek> {
        None
    }

    /// Makes the connection end with a reset when it is dropped, where the peer can see the difference.
    fn reset_on_drop(&mut self) {}

    /// Moves bytes from the connection into an empty pipe. 0 does not tell the end: reading does.
    fn poll_fill(&mut self, _pipe: &mut Pipe, _cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    /// Moves bytes from a pipe to the connection.
    fn poll_empty(&mut self, _pipe: &mut Pipe, _cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }
}

impl Duplex for TokioIo<Upgraded> {}

#[cfg(test)]
impl Duplex for tokio::io::DuplexStream {}
