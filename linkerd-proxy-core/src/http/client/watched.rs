//! A connection with a watch on its reads and writes, which hyper does not report, and whose answers are read to their end.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A watch on reads and writes, notified of each.
pub(super) trait Watch {
    /// A read has ended: `buf` has new bytes beyond `before`, or none at the end of the connection.
    fn was_read(&mut self, _buf: &ReadBuf<'_>, _before: usize) {}

    /// A write was tried. `waits`: there was no room for it.
    fn was_written(&mut self, _waits: bool) {}
}

/// A connection with its watch.
///
/// An endpoint that refuses an upload answers, and closes while bytes are still on their way to it: the reset that they cause fails the
/// next write, though the answer has arrived. So a write to a closed connection fails only when all that was received has been read;
/// until then what is written is discarded.
pub(super) struct Watched<I, W> {
    pub(super) io: I,
    pub(super) watch: W,
    /// The failure of a write, which reads report at their end.
    failed: Option<io::ErrorKind>,
}

impl<I, W> Watched<I, W> {
    /// Watches a connection.
    pub(super) fn new(io: I, watch: W) -> Self {
        Self {
            io,
            watch,
            failed: None,
        }
    }

    /// The connection, unless a write has failed, and its watch.
    pub(super) fn into_parts(self) -> (Option<I>, W) {
        (self.failed.is_none().then_some(self.io), self.watch)
    }
}

impl<I, W: Watch> Watched<I, W> {
    /// Notes the result of a write. `len` bytes count as written to a connection that the peer has closed.
    fn wrote(&mut self, written: Poll<io::Result<usize>>, len: usize) -> Poll<io::Result<usize>> {
        self.watch.was_written(written.is_pending());
        self.unless_closed(written, len)
    }
}

impl<I, W> Watched<I, W> {
    /// The result, or `discarded` on a connection that the peer has closed: its failure is kept for the reads.
    fn unless_closed<T>(&mut self, done: Poll<io::Result<T>>, discarded: T) -> Poll<io::Result<T>> {
        match done {
            Poll::Ready(Err(error)) if is_closed(error.kind()) => {
                self.failed = Some(error.kind());
                Poll::Ready(Ok(discarded))
            }
            done => done,
        }
    }
}

impl<I: AsyncRead + Unpin, W: Watch + Unpin> AsyncRead for Watched<I, W> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.io).poll_read(cx, buf);
        if read.is_ready() {
            self.watch.was_read(buf, before);
        }
        match (self.failed, &read) {
            (Some(kind), Poll::Ready(Ok(()))) if buf.filled().len() == before => {
                Poll::Ready(Err(kind.into()))
            }
            _ => read,
        }
    }
}

impl<I: AsyncWrite + Unpin, W: Watch + Unpin> AsyncWrite for Watched<I, W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.failed.is_some() {
            return Poll::Ready(Ok(buf.len()));
        }
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        self.wrote(written, buf.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let len = || bufs.iter().map(|buf| buf.len()).sum();
        if self.failed.is_some() {
            return Poll::Ready(Ok(len()));
        }
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.wrote(written, len())
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.failed.is_some() {
            return Poll::Ready(Ok(()));
        }
        let flushed = Pin::new(&mut self.io).poll_flush(cx);
        self.unless_closed(flushed, ())
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.failed.is_some() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// Whether a write failed because the peer has closed the connection.
fn is_closed(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    matches!(kind, BrokenPipe | ConnectionAborted | ConnectionReset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    struct Unwatched;

    impl Watch for Unwatched {}

    fn reset() -> io::Error {
        io::ErrorKind::ConnectionReset.into()
    }

    #[tokio::test]
    async fn an_answer_is_read_after_a_write_has_failed() {
        let io = tokio_test::io::Builder::new()
            .write_error(reset())
            .read(b"answer")
            .build();
        let mut io = Watched::new(io, Unwatched);
        io.write_all(b"upload").await.unwrap();
        io.write_all(b"more").await.unwrap();
        let mut answer = [0; 6];
        io.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"answer");
        let end = io.read(&mut answer).await.unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::ConnectionReset);
    }

    #[tokio::test]
    async fn another_failure_of_a_write_is_one() {
        let timed_out = io::ErrorKind::TimedOut.into();
        let io = tokio_test::io::Builder::new()
            .write_error(timed_out)
            .build();
        let mut io = Watched::new(io, Unwatched);
        let error = io.write_all(b"upload").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
