//! An HTTP/2 connection whose small DATA frames are merged as they are read.

mod batch;

use batch::Batches;
pub(super) use batch::SMALL;
use std::{
    cell::Cell,
    io,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Merges the small DATA frames that a peer sends, and drops empty ones, before h2 reads them.
///
/// h2 counts the unread DATA frames of fewer than 256 bytes of a whole connection, and the empty ones of its whole life; it ends the
/// connection, with all its streams, where they are many. Peers that write one frame for each message send thousands at once
/// (hyperium/h2#939), and some end each body with an empty one (jetty.project#2454).
///
/// - **Waits for** nothing but reads: what was read is passed on at once, up to the beginning of a frame's header.
/// - **Bounds**: a copy of what one read brought, while it is merged.
pub(super) struct Merged<I> {
    io: I,
    batches: Batches,
    /// The beginning of a header, whose rest was not read yet.
    held: Held,
    /// Merged bytes that had no room in the reader's buffer.
    left: Vec<u8>,
    /// The peer, if it is a server.
    server: Option<Rc<Http2Server>>,
}

/// A server, as its frames show it.
#[derive(Debug)]
pub(super) struct Http2Server {
    /// Small frames that passed.
    pub(super) small: Cell<usize>,
    /// The most bytes of a head that it takes (SETTINGS_MAX_HEADER_LIST_SIZE).
    pub(super) max_head: Cell<u32>,
}

impl Default for Http2Server {
    fn default() -> Self {
        Self {
            small: Cell::new(0),
            max_head: Cell::new(u32::MAX),
        }
    }
}

/// A part of a frame's header.
#[derive(Default)]
struct Held {
    bytes: [u8; batch::HEADER],
    len: usize,
}

impl<I> Merged<I> {
    /// A connection of a client, which begins with the preface of HTTP/2.
    pub(super) fn of_client(io: I) -> Self {
        Self::new(io, Batches::after(PREFACE), None)
    }

    /// A connection to a server, which begins with a frame.
    pub(super) fn of_server(io: I) -> (Self, Rc<Http2Server>) {
        let server = Rc::new(Http2Server::default());
        let merged = Self::new(io, Batches::after(0), Some(server.clone()));
        (merged, server)
    }

    fn new(io: I, batches: Batches, server: Option<Rc<Http2Server>>) -> Self {
        Self {
            io,
            batches,
            held: Held::default(),
            left: Vec::new(),
            server,
        }
    }
}

impl<I: AsyncRead + Unpin> Merged<I> {
    /// Reads until there are bytes to pass on, or the end. `buf` has room for more than the held bytes.
    fn poll_batch(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        loop {
            buf.put_slice(&self.held.bytes[..self.held.len]);
            let start = buf.filled().len();
            let read = Pin::new(&mut self.io).poll_read(cx, buf);
            if !matches!(read, Poll::Ready(Ok(()))) {
                buf.set_filled(before);
                return read;
            }
            if buf.filled().len() == start {
                // The end, perhaps within a header.
                self.held.len = 0;
                return Poll::Ready(Ok(()));
            }
            let batch = &mut buf.filled_mut()[before..];
            let merged = self.batches.merge(batch);
            let held = &batch[batch.len() - merged.held..];
            self.held.bytes[..merged.held].copy_from_slice(held);
            self.held.len = merged.held;
            buf.set_filled(before + merged.passed);
            if let Some(server) = &self.server {
                server.small.set(server.small.get() + merged.small);
                if let Some(limit) = merged.max_head {
                    server.max_head.set(limit);
                }
            }
            if merged.passed > 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Merged<I> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.left.is_empty() && buf.remaining() >= ROOM {
            return this.poll_batch(cx, buf);
        }
        // h2 also reads into the last few bytes of a buffer.
        if this.left.is_empty() {
            let mut room = [0; ROOM];
            let mut batch = ReadBuf::new(&mut room);
            ready!(this.poll_batch(cx, &mut batch))?;
            this.left.extend_from_slice(batch.filled());
        }
        let passed = this.left.len().min(buf.remaining());
        buf.put_slice(&this.left[..passed]);
        this.left.drain(..passed);
        if this.left.is_empty() {
            this.left = Vec::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Merged<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
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

/// The length of a client's preface (RFC 9113, section 3.4).
const PREFACE: usize = 24;

/// Room that a buffer must have to be read into directly.
const ROOM: usize = 256;

#[cfg(test)]
mod tests;
