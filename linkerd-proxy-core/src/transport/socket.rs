//! A TCP socket, whose short writes are sent at the end of a round of the thread's tasks.

use super::{
    Duplex, OwnConnection, Pipe, outbox,
    socket_state::{Peek, SocketState},
};
use bytes::BufMut;
use rustix::{
    io::Errno,
    net::{Shutdown, shutdown},
};
use std::{
    io::{self, IoSlice},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf},
    net::TcpStream,
    task::yield_now,
};

/// A TCP socket.
///
/// Short writes are sent at the end of a round of the thread's tasks ([`outbox`]), if the thread has an outbox; the writer
/// sees them as done. If the system does not accept them then, the socket is not writable until it does, and the rest is
/// sent even if the socket is dropped meanwhile. If sending fails, the next read or write fails. Only one thread may
/// write: writes posted by another thread are not waited for.
#[derive(Debug)]
pub struct Socket {
    state: Arc<SocketState>,
    /// The end was read: no further read would report a failed write.
    has_ended: bool,
    /// Bytes that may still be read before the task yields.
    turn: u32,
}

impl From<TcpStream> for Socket {
    fn from(stream: TcpStream) -> Self {
        Self::new(stream, None)
    }
}

impl Socket {
    /// A socket that this proxy has dialled.
    pub(super) fn dialled(stream: TcpStream, own: OwnConnection) -> Self {
        Self::new(stream, Some(own))
    }

    fn new(stream: TcpStream, own: Option<OwnConnection>) -> Self {
        Self {
            state: Arc::new(SocketState::new(stream, own)),
            has_ended: false,
            turn: READ_TURN,
        }
    }

    /// The runtime's socket. A direct write to it overtakes posted ones.
    pub fn stream(&self) -> &TcpStream {
        self.state.stream()
    }

    /// Reads from a socket that may be readable. `None` if it is not.
    #[inline(never)]
    fn try_read(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Option<Poll<io::Result<()>>> {
        if self.turn == 0 {
            self.turn = READ_TURN;
            return Some(poll_give_way(cx));
        }
        let room = buf.remaining().min(self.turn as usize);
        let stream = self.stream();
        let read = attempt(stream, Interest::READABLE, room, || {
            stream.try_read_buf(&mut buf.limit(room))
        });
        match read {
            Ok(length @ 1..) => {
                // At most what there was.
                self.turn -= length as u32;
                Some(Poll::Ready(Ok(())))
            }
            Ok(0) if room == 0 => Some(Poll::Ready(Ok(()))),
            blocked if would_block(&blocked) => None,
            ended => Some(self.poll_ended(ended, cx)),
        }
    }

    /// Handles the end of the peer's side, or a read error.
    #[cold]
    fn poll_ended(
        &mut self,
        ended: io::Result<usize>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        ended.map_err(|error| self.state.cause(error))?;
        self.has_ended = true;
        // The socket may have been shut down because a posted write failed.
        if self.state.has_failed() {
            return self.state.poll_unstuck(cx);
        }
        Poll::Ready(self.state.loop_error().map_or(Ok(()), Err))
    }

    /// Waits until the system has accepted all writes.
    fn poll_sent(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.state.is_posted() {
            outbox::deliver();
        }
        self.state.poll_unstuck(cx)
    }

    fn poll_send(&self, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let stream = self.stream();
        loop {
            ready!(self.state.poll_unstuck(cx))?;
            ready!(stream.poll_write_ready(cx))?;
            if !self.has_ended
                && let Some(len) = outbox::post(&self.state, bufs)
            {
                return Poll::Ready(Ok(len));
            }
            ready!(self.poll_sent(cx))?;
            let room = bufs.iter().map(|buf| buf.len()).sum();
            let sent = attempt(stream, Interest::WRITABLE, room, || match bufs {
                [one] => stream.try_write(one),
                _ => stream.try_write_vectored(bufs),
            });
            if !would_block(&sent) {
                return Poll::Ready(sent.map_err(|error| self.state.cause(error)));
            }
        }
    }
}

/// Reads or writes. After a partial result the runtime's readiness is cleared, which saves a call that would only
/// return `EWOULDBLOCK`.
fn attempt(
    stream: &TcpStream,
    interest: Interest,
    room: usize,
    io: impl FnOnce() -> io::Result<usize>,
) -> io::Result<usize> {
    let mut done = 0;
    let result = stream.try_io(interest, || {
        done = io()?;
        match done > 0 && done < room {
            true => Err(io::ErrorKind::WouldBlock.into()),
            false => Ok(done),
        }
    });
    match would_block(&result) && done > 0 {
        true => Ok(done),
        false => result,
    }
}

/// Lets the thread's other tasks, sockets and timers run. The task is woken after them.
#[cold]
fn poll_give_way(cx: &mut Context<'_>) -> Poll<io::Result<()>> {
    pin!(yield_now()).poll(cx).map(Ok)
}

/// Bytes that a task reads from a socket before it yields. A parser may spend any time on them: with endless interim
/// responses or leading zeros, hyper would read 128 buffers of 500 KB in one go, which takes half a second.
const READ_TURN: u32 = 256 * 1024;

fn would_block<T>(result: &io::Result<T>) -> bool {
    matches!(result, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.state.is_posted() {
            outbox::deliver();
        }
    }
}

impl AsyncRead for Socket {
    /// Most polls find nothing to read, six of eight for an HTTP/1 request, so that case must be fast.
    #[inline]
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let Poll::Ready(ready) = self.stream().poll_read_ready(cx) else {
                self.turn = READ_TURN;
                return Poll::Pending;
            };
            ready?;
            if let Some(read) = self.try_read(cx, buf) {
                return read;
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_send(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_send(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Posted writes count as flushed: the outbox sends them at the end of the round.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.state.poll_unstuck(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_sent(cx))?;
        match shutdown(self.stream(), Shutdown::Write) {
            // The peer has closed already.
            Err(Errno::NOTCONN) => Poll::Ready(Ok(())),
            done => Poll::Ready(Ok(done?)),
        }
    }
}

impl Duplex for Socket {
    fn is_socket(&self) -> bool {
        true
    }

    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.stream().poll_read_ready(cx).map(drop)
    }

    fn poll_received(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut byte = [0];
        self.stream()
            .poll_peek(cx, &mut ReadBuf::new(&mut byte))
            .map(drop)
    }

    fn peek(&self) -> Option<Peek> {
        Some(Peek::new(self.state.clone()))
    }

    fn reset_on_drop(&mut self) {
        if let Err(error) = self.stream().set_zero_linger() {
            tracing::debug!(%error, "a socket will end without a reset");
        }
    }

    fn poll_fill(&mut self, pipe: &mut Pipe, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        pipe.poll_fill(self.stream(), cx)
    }

    fn poll_empty(&mut self, pipe: &mut Pipe, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        ready!(self.poll_sent(cx))?;
        pipe.poll_empty(self.stream(), cx)
    }
}

#[cfg(test)]
pub(super) mod tests;
