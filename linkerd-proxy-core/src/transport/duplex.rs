//! What a relay carries bytes between.

use super::Pipe;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use std::{
    io,
    task::{Context, Poll},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};

/// A connection, from and to which bytes may be moved without a copy if it is a plain socket.
pub trait Duplex: AsyncRead + AsyncWrite + Unpin {
    /// Whether bytes that come next can be moved: what was put back must be read, and what is encrypted, too.
    fn splices(&self) -> bool {
        false
    }

    /// Moves bytes from the connection into an empty pipe. 0 does not tell the end: reading does.
    fn poll_fill(&mut self, _pipe: &mut Pipe, _cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    /// Moves bytes from a pipe to the connection.
    fn poll_empty(&mut self, _pipe: &mut Pipe, _cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }
}

impl Duplex for TcpStream {
    fn splices(&self) -> bool {
        true
    }

    fn poll_fill(&mut self, pipe: &mut Pipe, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        pipe.poll_fill(self, cx)
    }

    fn poll_empty(&mut self, pipe: &mut Pipe, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        pipe.poll_empty(self, cx)
    }
}

impl Duplex for TokioIo<Upgraded> {}
