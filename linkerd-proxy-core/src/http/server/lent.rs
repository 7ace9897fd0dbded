//! A connection that returns to its owner when it is dropped.

use std::{
    cell::Cell,
    io,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection for hyper's HTTP/2, which takes ownership and drops the connection at its end.
pub(super) struct LentIo<I> {
    io: Option<I>,
    returned: Rc<Cell<Option<I>>>,
}

impl<I> LentIo<I> {
    /// Lends a connection, which returns to the cell when dropped.
    pub(super) fn new(io: I) -> (Self, Rc<Cell<Option<I>>>) {
        let returned = Rc::new(Cell::new(None));
        let io = Self {
            io: Some(io),
            returned: returned.clone(),
        };
        (io, returned)
    }
}

impl<I: Unpin> LentIo<I> {
    fn io(self: Pin<&mut Self>) -> Pin<&mut I> {
        let io = self.get_mut().io.as_mut();
        Pin::new(io.expect("it is lent until this is dropped"))
    }
}

impl<I> Drop for LentIo<I> {
    fn drop(&mut self) {
        self.returned.set(self.io.take());
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for LentIo<I> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.io().poll_read(cx, buf)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for LentIo<I> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.io().poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.io().poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.as_ref().is_some_and(AsyncWrite::is_write_vectored)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io().poll_shutdown(cx)
    }
}
