//! Relaying bytes in both directions.

use super::{
    Duplex, Pipe, Pipes,
    request_scan::{RequestScan, Scanned},
};
use bytes::{BufMut, Bytes, BytesMut};
use std::{
    future::poll_fn,
    io,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncReadExt, AsyncWrite};

/// The end of a relay.
#[derive(Debug)]
pub enum Relayed {
    /// Both sides have ended.
    Ended {
        /// The bytes from the client to the server.
        sent: u64,
        /// The bytes from the server to the client.
        received: u64,
    },
    /// The client has sent a request line. The server did not get its end, and gets a reset when it is dropped.
    Request {
        /// All bytes of the client, if they were few and the server has sent none.
        replay: Option<Bytes>,
    },
}

/// Relays bytes in both directions until both sides have ended; the end of one side is passed on to the other at once. With a
/// `scan`, the relay also ends at a request line of the client.
///
/// Small pieces are copied; a flow that fills a buffer is moved through one of the `pipes` if both sides are plain
/// sockets. A connection that waits for bytes holds neither buffer nor pipe. An error of either side, such as a reset, ends both
/// directions, and both sides end with a reset when dropped: a plain end would say that the stream is complete. Not cancel
/// safe: bytes may have been read and not written.
pub async fn relay(
    client: &mut impl Duplex,
    server: &mut impl Duplex,
    pipes: &Pipes,
    scan: Option<RequestScan>,
) -> io::Result<Relayed> {
    let (mut there, mut back) = (Direction::default(), Direction::default());
    there.scan = scan.map(Box::new);
    let ended = poll_fn(|cx| {
        let sent = there.poll(client, server, pipes, cx)?;
        if let Phase::Held = there.phase {
            return Poll::Ready(Ok(None));
        }
        let received = back.poll(server, client, pipes, cx)?;
        if back.carried > 0
            && let Some(scan) = &mut there.scan
        {
            scan.server_spoke();
        }
        Poll::Ready(Ok(Some((ready!(sent), ready!(received)))))
    })
    .await;
    match ended {
        Ok(Some((sent, received))) => Ok(Relayed::Ended { sent, received }),
        Ok(None) => {
            server.reset_on_drop();
            let is_answered = back.carried > 0;
            let scan = there.scan.filter(|_| !is_answered);
            let replay = scan.and_then(|scan| scan.into_bytes());
            Ok(Relayed::Request { replay })
        }
        Err(error) => {
            client.reset_on_drop();
            server.reset_on_drop();
            Err(error)
        }
    }
}

/// One direction of a relay.
#[derive(Default)]
struct Direction {
    /// Bytes that were read.
    carried: u64,
    /// Bytes that were written.
    moved: u64,
    unwritten: Unwritten,
    /// The search in the bytes that are read, until it is over.
    scan: Option<Box<RequestScan>>,
    /// The last read filled a buffer, so that more is likely to wait.
    is_bulk: bool,
    is_flushed: bool,
    phase: Phase,
}

/// Bytes that were read and are not written yet.
#[derive(Default)]
enum Unwritten {
    #[default]
    Nothing,
    Copied {
        buffer: BytesMut,
        written: usize,
    },
    Spliced(Pipe),
}

#[derive(Default)]
enum Phase {
    #[default]
    Open,
    /// The end was read, and must be passed on.
    Ending,
    Ended,
    /// A request line was read, and is not passed on.
    Held,
}

impl Direction {
    /// Relays until the end was passed on.
    fn poll(
        &mut self,
        from: &mut impl Duplex,
        to: &mut impl Duplex,
        pipes: &Pipes,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<u64>> {
        let turn_end = self.carried + TURN;
        loop {
            ready!(self.poll_write(to, pipes, cx))?;
            match self.phase {
                Phase::Open if self.carried >= turn_end => {
                    // Yields to other tasks.
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Phase::Open => {}
                Phase::Ending => {
                    ready!(Pin::new(&mut *to).poll_shutdown(cx))?;
                    self.phase = Phase::Ended;
                }
                Phase::Ended => return Poll::Ready(Ok(self.moved)),
                Phase::Held => return Poll::Pending,
            }
            if let Phase::Open = self.phase {
                match self.poll_read(from, to, pipes, cx)? {
                    Poll::Ready(_) if self.holds_request() => self.hold(),
                    Poll::Ready(0) => {
                        self.unwritten = Unwritten::Nothing;
                        self.phase = Phase::Ending;
                    }
                    Poll::Ready(count) => self.carried += count as u64,
                    Poll::Pending => {
                        // No buffer is held while no bytes arrive.
                        self.unwritten = Unwritten::Nothing;
                        return self.poll_flush(to, cx);
                    }
                }
            }
        }
    }

    /// Writes the unwritten bytes.
    fn poll_write(
        &mut self,
        to: &mut impl Duplex,
        pipes: &Pipes,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.unwritten {
            Unwritten::Nothing => {}
            Unwritten::Copied { buffer, written } => {
                while *written < buffer.len() {
                    let count = ready!(Pin::new(&mut *to).poll_write(cx, &buffer[*written..]))?;
                    if count == 0 {
                        return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                    }
                    *written += count;
                    self.moved += count as u64;
                }
                // The buffer is reused as long as bytes arrive.
                buffer.clear();
                *written = 0;
            }
            Unwritten::Spliced(pipe) => {
                while !pipe.is_empty() {
                    let count = ready!(to.poll_empty(pipe, cx))?;
                    if count == 0 {
                        return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                    }
                    self.moved += count as u64;
                }
                if let Unwritten::Spliced(pipe) = std::mem::take(&mut self.unwritten) {
                    pipes.give_back(pipe);
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Reads once all bytes are written; 0 is the end.
    fn poll_read(
        &mut self,
        from: &mut impl Duplex,
        to: &mut impl Duplex,
        pipes: &Pipes,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let is_spliced = self.is_bulk && self.scan.is_none();
        let count = match is_spliced && from.is_socket() && to.is_socket() {
            true => ready!(self.poll_splice(from, pipes, cx))?,
            false => 0,
        };
        let count = match count {
            0 => ready!(self.poll_copy(from, cx))?,
            count => count,
        };
        self.is_bulk = count >= BUFFER;
        self.is_flushed = false;
        Poll::Ready(Ok(count))
    }

    /// Moves bytes into a pipe; 0 if they have to be copied.
    fn poll_splice(
        &mut self,
        from: &mut impl Duplex,
        pipes: &Pipes,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let Some(mut pipe) = pipes.take() else {
            return Poll::Ready(Ok(0));
        };
        match from.poll_fill(&mut pipe, cx) {
            Poll::Ready(Ok(count)) if count > 0 => {
                self.unwritten = Unwritten::Spliced(pipe);
                Poll::Ready(Ok(count))
            }
            Poll::Ready(Err(error)) if is_unsupported(&error) => {
                pipes.give_up();
                Poll::Ready(Ok(0))
            }
            other => {
                pipes.give_back(pipe);
                other
            }
        }
    }

    fn poll_copy(
        &mut self,
        from: &mut impl Duplex,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if !matches!(self.unwritten, Unwritten::Copied { .. }) {
            let buffer = BytesMut::with_capacity(BUFFER);
            self.unwritten = Unwritten::Copied { buffer, written: 0 };
        }
        match &mut self.unwritten {
            Unwritten::Copied { buffer, .. } => {
                pin!(from.read_buf(&mut buffer.limit(BUFFER))).poll(cx)
            }
            _ => Poll::Ready(Ok(0)),
        }
    }

    /// Whether the bytes that were just read, or their end, complete a request line.
    fn holds_request(&mut self) -> bool {
        let Some(scan) = &mut self.scan else {
            return false;
        };
        let scanned = match &self.unwritten {
            Unwritten::Copied { buffer, .. } if !buffer.is_empty() => scan.scan(buffer),
            _ => scan.ended(),
        };
        if scan.is_over() {
            self.scan = None;
        }
        scanned == Scanned::RequestLine
    }

    /// Drops the bytes that were just read.
    fn hold(&mut self) {
        self.unwritten = Unwritten::Nothing;
        self.phase = Phase::Held;
    }

    fn poll_flush(
        &mut self,
        to: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<u64>> {
        if !self.is_flushed {
            ready!(Pin::new(to).poll_flush(cx))?;
            self.is_flushed = true;
        }
        Poll::Pending
    }
}

/// Errors that systems and their filters return for an unsupported call.
fn is_unsupported(error: &io::Error) -> bool {
    let answers = [libc::EINVAL, libc::ENOSYS, libc::EPERM];
    error
        .raw_os_error()
        .is_some_and(|errno| answers.contains(&errno))
}

/// The buffer of one direction, in bytes. A larger one would save system calls for bulk transfers, which use pipes instead.
const BUFFER: usize = 16 * 1024;

/// Bytes after which a direction yields: well under a millisecond.
const TURN: u64 = 1024 * 1024;

#[cfg(test)]
mod tests;
