//! Streams that the proxy encrypts.

use super::EndpointTrust;
use crate::transport::{Duplex, TransportStream};
use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream that the proxy encrypts, as client or as server.
#[derive(Debug)]
pub(super) struct EncryptedStream {
    stream: tokio_rustls::TlsStream<TransportStream>,
    /// The trust in its server, if that is an endpoint.
    trust: Option<EndpointTrust>,
}

impl EncryptedStream {
    /// A connection of a client.
    pub(super) fn of_client(stream: impl Into<tokio_rustls::TlsStream<TransportStream>>) -> Self {
        Self {
            stream: stream.into(),
            trust: None,
        }
    }

    /// A connection to an endpoint.
    pub(super) fn of_endpoint(
        stream: impl Into<tokio_rustls::TlsStream<TransportStream>>,
        trust: Option<EndpointTrust>,
    ) -> Self {
        Self {
            stream: stream.into(),
            trust,
        }
    }
}

impl AsyncRead for EncryptedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for EncryptedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl Duplex for EncryptedStream {
    fn awaits_bytes(&self) -> bool {
        self.stream.get_ref().0.awaits_bytes()
    }

    /// Received bytes that are not decrypted yet are less than a record: the rest of the record makes the socket readable.
    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let (stream, session) = self.stream.get_mut();
        match session.wants_read() {
            true => stream.poll_readable(cx),
            false => Poll::Ready(()),
        }
    }

    fn endpoint_trust(&self) -> Option<EndpointTrust> {
        self.trust.clone()
    }

    fn reset_on_drop(&mut self) {
        self.stream.get_mut().0.reset_on_drop();
    }
}
