//! Streams that the proxy encrypts.

use crate::transport::{Duplex, TransportStream};
use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream that the proxy encrypts, as client or as server.
#[derive(Debug)]
pub(super) struct EncryptedStream(pub(super) tokio_rustls::TlsStream<TransportStream>);

impl AsyncRead for EncryptedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for EncryptedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl Duplex for EncryptedStream {
    fn awaits_bytes(&self) -> bool {
        self.0.get_ref().0.awaits_bytes()
    }

    /// Received bytes that are not decrypted yet are less than a record: the rest of the record makes the socket readable.
    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let (stream, session) = self.0.get_mut();
        match session.wants_read() {
            true => stream.poll_readable(cx),
            false => Poll::Ready(()),
        }
    }

    fn reset_on_drop(&mut self) {
        self.0.get_mut().0.reset_on_drop();
    }
}
