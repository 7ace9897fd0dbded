//! Counted streams, whose read bytes can be put back.

use super::{Activity, Duplex, Peek, Pipe, TransportSeries};
use crate::tls::EndpointTrust;
use bytes::{Buf, Bytes};
use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A counted stream. Bytes that were read too early can be put back.
#[derive(Debug)]
pub struct CountedStream<S> {
    stream: S,
    prefix: Bytes,
    series: Arc<TransportSeries>,
    errno: Option<i32>,
    /// The peer has ended its side, or the connection failed.
    has_ended: bool,
    activity: Option<Arc<Activity>>,
}

impl<S> CountedStream<S> {
    /// Counts a connection as open, until it is dropped.
    pub fn new(stream: S, series: Arc<TransportSeries>) -> Self {
        series.opened();
        Self {
            stream,
            prefix: Bytes::new(),
            series,
            errno: None,
            has_ended: false,
            activity: None,
        }
    }

    /// Puts back bytes that were read before the connection was counted, and counts them as received.
    pub fn begin_with(&mut self, read: Bytes) {
        self.series.received(read.len() as u64);
        self.put_back(read);
    }

    /// Puts back bytes that were read; the next reads return them first.
    pub fn put_back(&mut self, read: Bytes) {
        self.prefix = match self.prefix.is_empty() {
            true => read,
            // Only a part of the bytes put back before was read again.
            false => [read, self.take_prefix()].concat().into(),
        };
    }

    /// The bytes that were put back and not read again.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// Takes the bytes that were put back.
    pub fn take_prefix(&mut self) -> Bytes {
        std::mem::take(&mut self.prefix)
    }

    /// Records reads and flushes in `activity`.
    pub fn watch(&mut self, activity: Arc<Activity>) {
        self.activity = Some(activity);
    }

    /// Ends the record of reads and flushes.
    pub fn unwatch(&mut self) {
        self.activity = None;
    }

    /// Whether the end of the peer's side was read, or the connection failed.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// The wrapped connection.
    pub fn inner(&self) -> &S {
        &self.stream
    }

    fn note<T>(&mut self, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if let Poll::Ready(Err(error)) = &result {
            self.errno = error.raw_os_error();
            self.has_ended = true;
        }
        result
    }

    fn sent(&mut self, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let count = ready!(self.note(result))?;
        self.series.sent(count as u64);
        Poll::Ready(Ok(count))
    }

    fn was_read(&self, count: usize) {
        if let Some(activity) = &self.activity
            && count > 0
        {
            activity.note_read();
        }
    }

    /// Notes a write. Whether it is held back: the server answers in place of its codec.
    fn holds_back(&self, write: &[u8]) -> bool {
        let Some(activity) = &self.activity else {
            return false;
        };
        let is_held = activity.holds_back(write);
        if !is_held {
            activity.note_write();
        }
        is_held
    }
}

impl<S> Drop for CountedStream<S> {
    fn drop(&mut self) {
        let noted = || self.activity.as_ref()?.errno();
        self.series.closed(self.errno.or_else(noted));
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CountedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.prefix.is_empty() {
            let count = self.prefix.len().min(buf.remaining());
            buf.put_slice(&self.prefix[..count]);
            self.prefix.advance(count);
            if self.prefix.is_empty() {
                // Frees the memory.
                self.prefix = Bytes::new();
            }
            self.was_read(count);
            return Poll::Ready(Ok(()));
        }
        let (before, room) = (buf.filled().len(), buf.remaining());
        let result = Pin::new(&mut self.stream).poll_read(cx, buf);
        ready!(self.note(result))?;
        let count = buf.filled().len() - before;
        self.has_ended |= count == 0 && room > 0;
        self.series.received(count as u64);
        self.was_read(count);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CountedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.holds_back(buf) {
            return Poll::Ready(Ok(buf.len()));
        }
        let result = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.sent(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.holds_back(bufs.first().map_or(&[][..], |first| first)) {
            return Poll::Ready(Ok(bufs.iter().map(|buf| buf.len()).sum()));
        }
        let result = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.sent(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        ready!(self.note(flushed))?;
        if let Some(activity) = &self.activity {
            activity.note_flush();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self
            .activity
            .as_ref()
            .is_some_and(|activity| activity.has_held_back())
        {
            // The server's own answer comes first.
            return Poll::Ready(Ok(()));
        }
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.note(shut)
    }
}

impl<S: Duplex> Duplex for CountedStream<S> {
    fn is_socket(&self) -> bool {
        self.prefix.is_empty() && self.stream.is_socket()
    }

    fn awaits_bytes(&self) -> bool {
        self.stream.awaits_bytes()
    }

    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.prefix.is_empty() {
            true => self.stream.poll_readable(cx),
            false => Poll::Ready(()),
        }
    }

    fn poll_received(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.prefix.is_empty() {
            true => self.stream.poll_received(cx),
            false => Poll::Ready(()),
        }
    }

    fn peek(&self) -> Option<Peek> {
        self.stream.peek()
    }

    fn endpoint_trust(&self) -> Option<EndpointTrust> {
        self.stream.endpoint_trust()
    }

    fn reset_on_drop(&mut self) {
        self.stream.reset_on_drop();
    }

    fn poll_fill(&mut self, pipe: &mut Pipe, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let result = self.stream.poll_fill(pipe, cx);
        let count = ready!(self.note(result))?;
        self.series.received(count as u64);
        self.was_read(count);
        Poll::Ready(Ok(count))
    }

    fn poll_empty(&mut self, pipe: &mut Pipe, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let result = self.stream.poll_empty(pipe, cx);
        self.sent(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        metrics::{Labels, Registry},
        transport::TransportMetrics,
    };
    use std::time::Duration;
    use tokio::time::Instant;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
    };

    #[tokio::test]
    async fn what_was_put_back_is_read_first_and_bytes_are_counted() {
        let registry = Registry::new();
        let metrics = TransportMetrics::register(&registry);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap());
        let (client, server) = tokio::join!(client, listener.accept());
        let mut client = client.unwrap();
        let labels = Labels::new().with("peer", "src");
        let mut io = CountedStream::new(server.unwrap().0, metrics.series(labels));
        client.write_all(b"world").await.unwrap();
        io.put_back(Bytes::from_static(b"lo "));
        io.begin_with(Bytes::from_static(b"hel"));
        let mut read = [0; 11];
        io.read_exact(&mut read).await.unwrap();
        io.write_all(b"ok").await.unwrap();
        assert_eq!(&read, b"hello world");
        let text = registry.render(Duration::MAX, Instant::now());
        assert!(text.contains("tcp_open_connections{peer=\"src\"} 1"));
        drop(io);
        let text = registry.render(Duration::MAX, Instant::now());
        for line in [
            "tcp_read_bytes_total{peer=\"src\"} 8",
            "tcp_write_bytes_total{peer=\"src\"} 2",
            "tcp_open_connections{peer=\"src\"} 0",
            "tcp_close_total{peer=\"src\",errno=\"\"} 1",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }
}
