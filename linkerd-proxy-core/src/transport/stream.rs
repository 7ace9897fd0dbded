//! Streams of clients and to endpoints: sockets, streams within the process, and tunnels through either.

use super::{CountedStream, Duplex, Peek, Pipe, Socket};
use crate::tls::EndpointTrust;
use std::{
    fmt::Debug,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

/// A stream that was accepted, opened by a [`Dialer`](super::Dialer), or made by an upgrade of such a stream.
///
/// An enum, as each read and write goes through it: a match on a tag costs less than a virtual call, and can be inlined.
#[derive(Debug)]
pub enum TransportStream {
    /// A TCP connection.
    Socket(Socket),
    /// Any other stream. Virtual: a variant that contains a stream of this type would prevent inlining for all. Boxed twice, as a
    /// virtual box is larger than a socket.
    Other(Box<Box<dyn OtherStream>>),
}

/// A stream other than a socket: to a peer in this process, a connection that carried HTTP until it was upgraded (still
/// counted as that connection), or a tunnel in a stream of HTTP/2, which only hyper can read and write.
pub trait OtherStream: Duplex + Send + Debug {}

impl<S: Duplex + Send + Debug> OtherStream for S {}

/// A counted connection.
pub type Io<S = TransportStream> = CountedStream<S>;

impl From<Socket> for TransportStream {
    fn from(socket: Socket) -> Self {
        Self::Socket(socket)
    }
}

impl From<DuplexStream> for TransportStream {
    fn from(stream: DuplexStream) -> Self {
        Self::other(stream)
    }
}

impl TransportStream {
    /// A stream other than a socket.
    pub fn other(stream: impl OtherStream + 'static) -> Self {
        Self::Other(Box::new(Box::new(stream)))
    }
}

impl AsyncRead for TransportStream {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Socket(socket) => Pin::new(socket).poll_read(cx, buf),
            Self::Other(stream) => Pin::new(&mut ***stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for TransportStream {
    #[inline]
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Socket(socket) => Pin::new(socket).poll_write(cx, buf),
            Self::Other(stream) => Pin::new(&mut ***stream).poll_write(cx, buf),
        }
    }

    #[inline]
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Socket(socket) => Pin::new(socket).poll_write_vectored(cx, bufs),
            Self::Other(stream) => Pin::new(&mut ***stream).poll_write_vectored(cx, bufs),
        }
    }

    #[inline]
    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Socket(socket) => socket.is_write_vectored(),
            Self::Other(stream) => stream.is_write_vectored(),
        }
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Socket(socket) => Pin::new(socket).poll_flush(cx),
            Self::Other(stream) => Pin::new(&mut ***stream).poll_flush(cx),
        }
    }

    #[inline]
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Socket(socket) => Pin::new(socket).poll_shutdown(cx),
            Self::Other(stream) => Pin::new(&mut ***stream).poll_shutdown(cx),
        }
    }
}

impl Duplex for TransportStream {
    #[inline]
    fn is_socket(&self) -> bool {
        match self {
            Self::Socket(socket) => socket.is_socket(),
            Self::Other(stream) => stream.is_socket(),
        }
    }

    #[inline]
    fn awaits_bytes(&self) -> bool {
        match self {
            Self::Socket(socket) => socket.awaits_bytes(),
            Self::Other(stream) => stream.awaits_bytes(),
        }
    }

    #[inline]
    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Socket(socket) => socket.poll_readable(cx),
            Self::Other(stream) => stream.poll_readable(cx),
        }
    }

    fn poll_received(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Socket(socket) => socket.poll_received(cx),
            Self::Other(stream) => stream.poll_received(cx),
        }
    }

    #[inline]
    fn peek(&self) -> Option<Peek> {
        match self {
            Self::Socket(socket) => socket.peek(),
            Self::Other(stream) => stream.peek(),
        }
    }

    fn endpoint_trust(&self) -> Option<EndpointTrust> {
        match self {
            Self::Socket(_) => None,
            Self::Other(stream) => stream.endpoint_trust(),
        }
    }

    #[inline]
    fn reset_on_drop(&mut self) {
        match self {
            Self::Socket(socket) => socket.reset_on_drop(),
            Self::Other(stream) => stream.reset_on_drop(),
        }
    }

    #[inline]
    fn poll_fill(&mut self, pipe: &mut Pipe, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        match self {
            Self::Socket(socket) => socket.poll_fill(pipe, cx),
            Self::Other(stream) => stream.poll_fill(pipe, cx),
        }
    }

    #[inline]
    fn poll_empty(&mut self, pipe: &mut Pipe, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        match self {
            Self::Socket(socket) => socket.poll_empty(pipe, cx),
            Self::Other(stream) => stream.poll_empty(pipe, cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::socket::tests::pair;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[test]
    fn is_as_small_as_a_socket() {
        assert_eq!(size_of::<TransportStream>(), size_of::<Socket>());
    }

    #[tokio::test]
    async fn either_kind_carries_bytes_and_only_a_socket_can_be_spliced() {
        let (near, far) = pair().await;
        let (near_in_memory, far_in_memory) = tokio::io::duplex(64);
        let sockets = [near, far].map(|stream| Socket::from(stream).into());
        let in_memory = [near_in_memory, far_in_memory].map(TransportStream::from);
        for ([mut near, mut far], is_socket) in [(sockets, true), (in_memory, false)] {
            assert_eq!(
                (near.is_socket(), near.peek().is_some()),
                (is_socket, is_socket)
            );
            near.write_all(b"hello").await.unwrap();
            near.shutdown().await.unwrap();
            let mut read = String::new();
            far.read_to_string(&mut read).await.unwrap();
            assert_eq!(read, "hello");
        }
    }
}
