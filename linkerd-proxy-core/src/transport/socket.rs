//! A TCP socket, whose short writes leave at the end of a round of the thread's tasks.

use super::{Duplex, OwnConnection, Pipe, outbox};
use bytes::{Buf, BytesMut};
use rustix::{
    io::{Errno, retry_on_intr},
    net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown},
};
use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, Ordering::Relaxed},
    },
    task::{Context, Poll, Waker, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf},
    net::TcpStream,
    runtime::Handle,
};

/// A TCP socket.
///
/// Short writes are sent at the end of a round of the thread's tasks ([`outbox`]), where the thread has an outbox; the
/// writer sees them as done. If the system does not accept them then, the socket is not writable until it does, and the
/// rest is sent even if the socket is dropped meanwhile. If that fails, the next read or write fails. Only one thread
/// may write: writes posted by another thread are not waited for.
#[derive(Debug)]
pub struct Socket {
    shared: Arc<Shared>,
    /// The end was read: no further read would report a failed write.
    has_ended: bool,
}

/// Looks at received bytes without reading them.
#[derive(Debug)]
pub struct Peek(Arc<Shared>);

impl Peek {
    /// Whether the socket has unread bytes, or has ended. A system call.
    pub fn has_unread(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let peeked = retry_on_intr(|| recv(&self.0.stream, &mut [0; 1], flags));
        !matches!(peeked, Err(Errno::AGAIN))
    }
}

/// Socket state shared by its owner and the outbox.
#[derive(Debug)]
pub(super) struct Shared {
    stream: TcpStream,
    state: AtomicU8,
    unsent: Mutex<Unsent>,
    /// The entry of a connection that this proxy has dialled.
    own: Option<OwnConnection>,
}

/// Writes that were posted and not accepted by the system.
#[derive(Debug, Default)]
struct Unsent {
    bytes: BytesMut,
    writer: Option<Waker>,
    error: Option<i32>,
}

/// All writes were accepted by the system.
const SENT: u8 = 0;
/// A write is in the outbox.
const POSTED: u8 = 1;
/// The system did not accept all posted writes; a task sends the rest.
const STUCK: u8 = 2;
/// A posted write failed.
const FAILED: u8 = 3;

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
        let shared = Shared {
            stream,
            state: AtomicU8::new(SENT),
            unsent: Mutex::default(),
            own,
        };
        Self {
            shared: Arc::new(shared),
            has_ended: false,
        }
    }

    /// The runtime's socket. A direct write to it overtakes posted ones.
    pub fn stream(&self) -> &TcpStream {
        &self.shared.stream
    }

    /// Handles the end of the peer's side, or a read error.
    #[cold]
    fn poll_ended(
        &mut self,
        ended: io::Result<usize>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        ended.map_err(|error| self.shared.cause(error))?;
        self.has_ended = true;
        // The socket may have been shut down because a posted write failed.
        if self.shared.state() == FAILED {
            return self.poll_stuck(cx);
        }
        Poll::Ready(self.shared.came_back().map_or(Ok(()), Err))
    }

    /// Waits until no write is stuck.
    #[inline]
    fn poll_unstuck(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.shared.state() < STUCK {
            true => Poll::Ready(Ok(())),
            false => self.poll_stuck(cx),
        }
    }

    #[cold]
    fn poll_stuck(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut unsent = self.shared.unsent();
        match unsent.error {
            Some(errno) => Poll::Ready(Err(io::Error::from_raw_os_error(errno))),
            None if unsent.bytes.is_empty() => Poll::Ready(Ok(())),
            None => {
                unsent.writer = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Waits until the system has accepted all writes.
    fn poll_sent(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.shared.state() == POSTED {
            outbox::deliver();
        }
        self.poll_unstuck(cx)
    }

    fn poll_send(&self, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let stream = self.stream();
        loop {
            ready!(self.poll_unstuck(cx))?;
            ready!(stream.poll_write_ready(cx))?;
            if !self.has_ended
                && let Some(len) = outbox::post(&self.shared, bufs)
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
                return Poll::Ready(sent.map_err(|error| self.shared.cause(error)));
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

fn would_block<T>(result: &io::Result<T>) -> bool {
    matches!(result, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.shared.state() == POSTED {
            outbox::deliver();
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let room = buf.remaining();
        let read = loop {
            let stream = self.stream();
            ready!(stream.poll_read_ready(cx))?;
            let read = attempt(stream, Interest::READABLE, room, || {
                stream.try_read_buf(buf)
            });
            if !would_block(&read) {
                break read;
            }
        };
        match read {
            Ok(1..) => Poll::Ready(Ok(())),
            Ok(0) if room == 0 => Poll::Ready(Ok(())),
            ended => self.poll_ended(ended, cx),
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
        self.poll_unstuck(cx)
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

    fn peek(&self) -> Option<Peek> {
        Some(Peek(self.shared.clone()))
    }

    fn poll_fill(&mut self, pipe: &mut Pipe, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        pipe.poll_fill(self.stream(), cx)
    }

    fn poll_empty(&mut self, pipe: &mut Pipe, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        ready!(self.poll_sent(cx))?;
        pipe.poll_empty(self.stream(), cx)
    }
}

impl Shared {
    /// Marks the socket: a write is in the outbox.
    pub(super) fn posted(&self) {
        if self.state() == SENT {
            self.state.store(POSTED, Relaxed);
        }
    }

    /// Sends a posted write.
    pub(super) fn send_posted(self: &Arc<Self>, bytes: &[u8]) {
        match self.state() {
            // A later write of the same round.
            STUCK => self.stuck(bytes),
            FAILED => {}
            _ => match self.try_send(bytes) {
                Ok(count) if count == bytes.len() => self.state.store(SENT, Relaxed),
                Ok(count) => self.stuck(&bytes[count..]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.stuck(bytes),
                Err(error) => self.failed(&mut self.unsent(), &error),
            },
        }
    }

    fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.try_io(Interest::WRITABLE, || {
            Ok(retry_on_intr(|| {
                send(&self.stream, bytes, SendFlags::NOSIGNAL)
            })?)
        })
    }

    fn stuck(self: &Arc<Self>, rest: &[u8]) {
        let mut unsent = self.unsent();
        unsent.bytes.extend_from_slice(rest);
        if self.state.swap(STUCK, Relaxed) == STUCK {
            return;
        }
        // No runtime is left at its end, and no task to send the rest.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(send_rest(self.clone()));
        }
    }

    fn failed(&self, unsent: &mut Unsent, error: &io::Error) {
        tracing::debug!(%error, "a socket did not take what was written");
        unsent.error = Some(error.raw_os_error().unwrap_or(libc::EIO));
        unsent.bytes = BytesMut::new();
        self.state.store(FAILED, Relaxed);
        // Wakes a task that waits to read.
        let _ = shutdown(&self.stream, Shutdown::Both);
        unsent.wake();
    }

    /// Tries to send the rest. `true` if nothing is left to send.
    fn try_rest(&self) -> bool {
        let mut unsent = self.unsent();
        match self.try_send(&unsent.bytes) {
            Ok(count) => unsent.bytes.advance(count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            Err(error) => self.failed(&mut unsent, &error),
        }
        if !unsent.bytes.is_empty() {
            return false;
        }
        if unsent.error.is_none() {
            unsent.bytes = BytesMut::new();
            self.state.store(SENT, Relaxed);
            unsent.wake();
        }
        true
    }

    /// The error of a dialled connection that came back to the proxy.
    #[cold]
    fn came_back(&self) -> Option<io::Error> {
        let came_back = self.own.as_ref()?.came_back()?;
        Some(io::Error::other(came_back))
    }

    /// The cause of a system error.
    #[cold]
    fn cause(&self, error: io::Error) -> io::Error {
        self.came_back().unwrap_or(error)
    }

    fn state(&self) -> u8 {
        self.state.load(Relaxed)
    }

    /// Never held across a wait, and taken only after a write was not accepted.
    fn unsent(&self) -> MutexGuard<'_, Unsent> {
        self.unsent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Unsent {
    fn wake(&mut self) {
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
    }
}

/// Sends the rest of posted writes as the peer makes room.
async fn send_rest(socket: Arc<Shared>) {
    while !socket.try_rest() {
        let writable = tokio::time::timeout(LINGER, socket.stream.writable()).await;
        // A dropped socket is closed if its peer does not read.
        if writable.is_err() && Arc::strong_count(&socket) == 1 {
            return;
        }
    }
}

/// Time limit for a dropped socket whose peer does not read.
const LINGER: Duration = Duration::from_secs(5);

#[cfg(test)]
pub(super) mod tests;
