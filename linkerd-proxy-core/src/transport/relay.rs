//! Carrying bytes both ways.

use super::{Duplex, Pipe, Pipes};
use bytes::{BufMut, BytesMut};
use std::{
    future::poll_fn,
    io,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncReadExt, AsyncWrite};

/// Carries bytes both ways until both sides have ended; an end of one side is passed on to the other at once.
///
/// What comes in small pieces is copied, and what fills a buffer is moved through one of the `pipes` if both sides are
/// plain sockets. A connection that waits for bytes has neither buffer nor pipe. Returns the bytes from `client` to
/// `server` and back; an error of either side ends both directions. Not cancel safe: what was read may not be written
/// yet.
pub async fn relay(
    client: &mut impl Duplex,
    server: &mut impl Duplex,
    pipes: &Pipes,
) -> io::Result<(u64, u64)> {
    let (mut there, mut back) = (Direction::default(), Direction::default());
    poll_fn(|cx| {
        let there = there.poll(client, server, pipes, cx)?;
        let back = back.poll(server, client, pipes, cx)?;
        Poll::Ready(Ok((ready!(there), ready!(back))))
    })
    .await
}

/// One of the two directions.
#[derive(Default)]
struct Direction {
    moved: u64,
    held: Held,
    /// The last read filled a buffer, so that more is likely to wait.
    is_bulk: bool,
    is_flushed: bool,
    phase: Phase,
}

/// What was read, and is not written yet.
#[derive(Default)]
enum Held {
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
    /// There is nothing more to read; the other side is to be told.
    Ending,
    Ended,
}

impl Direction {
    /// Carries bytes until the end, which was passed on when this is ready.
    fn poll(
        &mut self,
        from: &mut impl Duplex,
        to: &mut impl Duplex,
        pipes: &Pipes,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<u64>> {
        let mut carried = 0;
        loop {
            ready!(self.poll_write(to, pipes, cx))?;
            match self.phase {
                Phase::Open if carried >= TURN => {
                    // Others have their turn.
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Phase::Open => {}
                Phase::Ending => {
                    ready!(Pin::new(&mut *to).poll_shutdown(cx))?;
                    self.phase = Phase::Ended;
                }
                Phase::Ended => return Poll::Ready(Ok(self.moved)),
            }
            if let Phase::Open = self.phase {
                match self.poll_read(from, to, pipes, cx)? {
                    Poll::Ready(0) => {
                        self.held = Held::Nothing;
                        self.phase = Phase::Ending;
                    }
                    Poll::Ready(count) => carried += count,
                    Poll::Pending => {
                        // Nothing is kept while nothing comes.
                        self.held = Held::Nothing;
                        return self.poll_flush(to, cx);
                    }
                }
            }
        }
    }

    /// Writes what is held.
    fn poll_write(
        &mut self,
        to: &mut impl Duplex,
        pipes: &Pipes,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.held {
            Held::Nothing => {}
            Held::Copied { buffer, written } => {
                while *written < buffer.len() {
                    let count = ready!(Pin::new(&mut *to).poll_write(cx, &buffer[*written..]))?;
                    if count == 0 {
                        return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                    }
                    *written += count;
                    self.moved += count as u64;
                }
                // It is used again as long as bytes come.
                buffer.clear();
                *written = 0;
            }
            Held::Spliced(pipe) => {
                while !pipe.is_empty() {
                    let count = ready!(to.poll_empty(pipe, cx))?;
                    if count == 0 {
                        return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                    }
                    self.moved += count as u64;
                }
                if let Held::Spliced(pipe) = std::mem::take(&mut self.held) {
                    pipes.give_back(pipe);
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Reads when nothing is held; 0 is the end.
    fn poll_read(
        &mut self,
        from: &mut impl Duplex,
        to: &mut impl Duplex,
        pipes: &Pipes,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let count = match self.is_bulk && from.is_socket() && to.is_socket() {
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
                self.held = Held::Spliced(pipe);
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
        if !matches!(self.held, Held::Copied { .. }) {
            let buffer = BytesMut::with_capacity(BUFFER);
            self.held = Held::Copied { buffer, written: 0 };
        }
        match &mut self.held {
            Held::Copied { buffer, .. } => pin!(from.read_buf(&mut buffer.limit(BUFFER))).poll(cx),
            _ => Poll::Ready(Ok(0)),
        }
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

/// What systems and their filters answer to a call that they do not have.
fn is_unsupported(error: &io::Error) -> bool {
    let answers = [libc::EINVAL, libc::ENOSYS, libc::EPERM];
    error
        .raw_os_error()
        .is_some_and(|errno| answers.contains(&errno))
}

/// The buffer of one direction, in bytes. Larger ones save system calls on bulk transfers, which pipes are for.
const BUFFER: usize = 16 * 1024;

/// After so many bytes others have their turn: well under a millisecond.
const TURN: usize = 1024 * 1024;

#[cfg(test)]
mod tests;
