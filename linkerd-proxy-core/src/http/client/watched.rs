//! A connection with a watch on its reads and writes, which hyper does not report.

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
pub(super) struct Watched<I, W> {
    pub(super) io: I,
    pub(super) watch: W,
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
        read
    }
}

impl<I: AsyncWrite + Unpin, W: Watch + Unpin> AsyncWrite for Watched<I, W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        self.watch.was_written(written.is_pending());
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.watch.was_written(written.is_pending());
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
