//! The state of a socket with posted writes, and the delivery of writes that the system did not accept at once.

use super::OwnConnection;
use bytes::{Buf, BytesMut};
use rustix::{
    io::{Errno, retry_on_intr},
    net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown},
};
use std::{
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU8, Ordering::Relaxed},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};
use tokio::{io::Interest, net::TcpStream, runtime::Handle};

/// Socket state shared by its owner and the outbox.
#[derive(Debug)]
pub(super) struct SocketState {
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

impl SocketState {
    pub(super) fn new(stream: TcpStream, own: Option<OwnConnection>) -> Self {
        Self {
            stream,
            state: AtomicU8::new(SENT),
            unsent: Mutex::default(),
            own,
        }
    }

    #[inline]
    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Whether a write is in the outbox.
    pub(super) fn is_posted(&self) -> bool {
        self.state() == POSTED
    }

    /// Whether a posted write failed.
    pub(super) fn has_failed(&self) -> bool {
        self.state() == FAILED
    }

    /// Waits until no write is stuck.
    #[inline]
    pub(super) fn poll_unstuck(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.state() < STUCK {
            true => Poll::Ready(Ok(())),
            false => self.poll_stuck(cx),
        }
    }

    #[cold]
    fn poll_stuck(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut unsent = self.unsent();
        match unsent.error {
            Some(errno) => Poll::Ready(Err(io::Error::from_raw_os_error(errno))),
            None if unsent.bytes.is_empty() => Poll::Ready(Ok(())),
            None => {
                unsent.writer = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

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
        tracing::debug!(%error, "a posted write failed");
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
    pub(super) fn loop_error(&self) -> Option<io::Error> {
        let looped = self.own.as_ref()?.loop_error()?;
        Some(io::Error::other(looped))
    }

    /// The cause of a system error.
    #[cold]
    pub(super) fn cause(&self, error: io::Error) -> io::Error {
        self.loop_error().unwrap_or(error)
    }

    fn state(&self) -> u8 {
        self.state.load(Relaxed)
    }

    /// Never held across a wait, and taken only after a write was not accepted.
    fn unsent(&self) -> MutexGuard<'_, Unsent> {
        self.unsent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks at received bytes without reading them.
#[derive(Debug)]
pub struct Peek(Arc<SocketState>);

impl Peek {
    pub(super) fn new(socket: Arc<SocketState>) -> Self {
        Self(socket)
    }

    /// Whether the socket has unread bytes, or has ended. A system call.
    pub fn has_unread(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let peeked = retry_on_intr(|| recv(&self.0.stream, &mut [0; 1], flags));
        !matches!(peeked, Err(Errno::AGAIN))
    }

    /// Waits until the peer has ended its side, or the connection has failed. Unread bytes hide both, and nothing is read: the
    /// task that reads the socket must be the one that waits. A failure is returned once.
    pub fn poll_ended(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let stream = &self.0.stream;
        loop {
            let Poll::Ready(ready) = stream.poll_read_ready(cx) else {
                return Poll::Pending;
            };
            let peek = || {
                let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
                Ok(retry_on_intr(|| recv(stream, &mut [0; 1], flags))?.1)
            };
            match ready.and_then(|()| stream.try_io(Interest::READABLE, peek)) {
                Ok(1..) => return Poll::Pending,
                // The readiness was an assumption, and is cleared.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(0) => return Poll::Ready(Ok(())),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// A reference to the socket, which does not keep it open.
    pub fn downgrade(&self) -> SocketRef {
        SocketRef(Arc::downgrade(&self.0))
    }
}

/// Refers to a socket while its owner keeps it open.
#[derive(Clone, Debug)]
pub struct SocketRef(Weak<SocketState>);

impl SocketRef {
    /// Shuts the connection down in both directions, if it is open: its task reads the end.
    pub fn shut_down(&self) {
        if let Some(state) = self.0.upgrade()
            && let Err(error) = shutdown(&state.stream, Shutdown::Both)
        {
            tracing::debug!(%error, "a socket was not shut down");
        }
    }

    /// Makes the socket end with a reset when it is dropped.
    pub fn reset_on_drop(&self) {
        let Some(socket) = self.0.upgrade() else {
            return;
        };
        if let Err(error) = socket.stream.set_zero_linger() {
            tracing::debug!(%error, "a socket will end without a reset");
        }
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
async fn send_rest(socket: Arc<SocketState>) {
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

/// All writes were accepted by the system.
const SENT: u8 = 0;
/// A write is in the outbox.
const POSTED: u8 = 1;
/// The system did not accept all posted writes; a task sends the rest.
const STUCK: u8 = 2;
/// A posted write failed.
const FAILED: u8 = 3;
