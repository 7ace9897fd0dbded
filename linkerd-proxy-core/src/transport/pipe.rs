//! Pipes for moving bytes between sockets without a copy.
//!
//! A pipe is borrowed for one move from one socket to another, and returned as soon as it is empty. So only flows with a
//! slow reader hold a pipe, idle connections hold none, and a worker with many bulk flows needs few.

use rustix::{
    fd::OwnedFd,
    io::Errno,
    pipe::{PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice},
};
use serde_json::{Value, json};
use std::{
    cell::{Cell, RefCell},
    io,
    rc::Rc,
    task::{Context, Poll, ready},
};
use tokio::{io::Interest, net::TcpStream};

/// The pipes of one worker.
///
/// Gives out no pipe when its limit is reached or the system refuses one; the caller copies instead.
#[derive(Debug)]
pub struct Pipes {
    limit: usize,
    /// Open pipes, in use or free.
    open: Rc<Cell<usize>>,
    free: RefCell<Vec<Pipe>>,
    /// The least number of free pipes since the last sweep.
    unused: Cell<usize>,
    state: Cell<State>,
}

/// A pipe and its bytes. Dropping it closes it.
#[derive(Debug)]
pub struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
    held: usize,
    _open: Open,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Usable,
    /// The system refused a pipe: the next attempt is made after the next sweep.
    Refused,
    /// The system does not splice.
    Unsupported,
}

/// Counts an open pipe.
#[derive(Debug)]
struct Open(Rc<Cell<usize>>);

impl Default for Pipes {
    fn default() -> Self {
        Self::new(LIMIT)
    }
}

impl Pipes {
    /// A pool of at most `limit` pipes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            open: Rc::default(),
            free: RefCell::default(),
            unused: Cell::new(0),
            state: Cell::new(State::Usable),
        }
    }

    /// A pool without pipes, for connections that cannot be spliced.
    pub fn none() -> Self {
        Self::new(0)
    }

    /// An empty pipe, if available.
    pub fn take(&self) -> Option<Pipe> {
        if self.state.get() == State::Unsupported {
            return None;
        }
        let pipe = self.free.borrow_mut().pop();
        self.unused
            .set(self.unused.get().min(self.free.borrow().len()));
        pipe.or_else(|| self.open())
    }

    /// Returns a pipe to the pool. A pipe with bytes left is closed: they belong to another connection.
    pub fn give_back(&self, pipe: Pipe) {
        if pipe.is_empty() && self.state.get() != State::Unsupported {
            self.free.borrow_mut().push(pipe);
        }
    }

    /// Stops giving out pipes: this system does not splice.
    pub fn give_up(&self) {
        tracing::info!("splice(2) is not available; opaque connections are copied");
        self.state.set(State::Unsupported);
        self.free.borrow_mut().clear();
    }

    /// Closes pipes that were unused since the last sweep. Must be called regularly.
    pub fn sweep(&self) {
        let mut free = self.free.borrow_mut();
        let needed = free.len().saturating_sub(self.unused.get());
        free.truncate(needed);
        self.unused.set(needed);
        if self.state.get() == State::Refused {
            self.state.set(State::Usable);
        }
    }

    /// The figures for `/state`.
    pub fn inspect(&self) -> Value {
        json!({
            "open": self.open.get(),
            "free": self.free.borrow().len(),
            "limit": self.limit,
            "state": format!("{:?}", self.state.get()).to_lowercase(),
        })
    }

    fn open(&self) -> Option<Pipe> {
        if self.open.get() >= self.limit || self.state.get() == State::Refused {
            return None;
        }
        let opened = Pipe::open(&self.open);
        if let Err(error) = &opened {
            tracing::debug!(%error, "no pipe for a relay; it copies");
            self.state.set(State::Refused);
        }
        opened.ok()
    }
}

impl Pipe {
    fn open(open: &Rc<Cell<usize>>) -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // Only the resulting capacity counts: the user's limits may forbid a change, or may have made the pipe small.
        let _ = fcntl_setpipe_size(&write, CAPACITY);
        if fcntl_getpipe_size(&write)? < MIN_CAPACITY {
            return Err(Errno::NOBUFS.into());
        }
        open.set(open.get() + 1);
        Ok(Self {
            read,
            write,
            held: 0,
            _open: Open(open.clone()),
        })
    }

    /// Whether all bytes were moved out.
    pub fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// Moves received bytes from a socket into this pipe, which must be empty: a full pipe would look like a socket
    /// without data, and nothing would ever wake the task. 0 does not mean the end: splice(2) also stops at urgent
    /// data.
    pub fn poll_fill(
        &mut self,
        socket: &TcpStream,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        debug_assert!(self.is_empty(), "only an empty pipe is filled");
        loop {
            ready!(socket.poll_read_ready(cx))?;
            let spliced = socket.try_io(Interest::READABLE, || {
                Ok(splice(socket, None, &self.write, None, CAPACITY, FLAGS)?)
            });
            if !again(&spliced) {
                self.held += *spliced.as_ref().unwrap_or(&0);
                return Poll::Ready(spliced);
            }
        }
    }

    /// Moves bytes from this pipe to a socket, as many as the system takes.
    pub fn poll_empty(
        &mut self,
        socket: &TcpStream,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(socket.poll_write_ready(cx))?;
            let spliced = socket.try_io(Interest::WRITABLE, || {
                Ok(splice(&self.read, None, socket, None, self.held, FLAGS)?)
            });
            if !again(&spliced) {
                self.held -= *spliced.as_ref().unwrap_or(&0);
                return Poll::Ready(spliced);
            }
        }
    }
}

fn again(spliced: &io::Result<usize>) -> bool {
    use io::ErrorKind::{Interrupted, WouldBlock};
    matches!(spliced, Err(error) if matches!(error.kind(), WouldBlock | Interrupted))
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

const FLAGS: SpliceFlags = SpliceFlags::MOVE.union(SpliceFlags::NONBLOCK);

/// Capacity of a pipe in bytes, which bounds the bytes that wait for a slow reader. The capacity also sets the number of page
/// slots: received data comes in pieces of a packet, each of which takes a slot.
const CAPACITY: usize = 256 * 1024;

/// The least useful capacity. The kernel gives two-page pipes to a user with too many (`pipe-user-pages-soft`): copying is
/// faster then.
const MIN_CAPACITY: usize = 64 * 1024;

/// Pipes of a worker. Each takes two file descriptors, and 64 of the 16,384 pages that all proxies of a node share when
/// they run as one user.
const LIMIT: usize = 32;
