//! An HTTP/1 connection that is driven by the exchange that uses it.
//!
//! hyper's connection is a future that has to be polled. In a task of its own, each exchange wakes that task, is woken
//! by it, and wakes it again for having taken the body: five polls of tasks where two are enough. So the exchange polls
//! the connection itself, from the request's first byte to the response's last. An idle connection is not polled; that the
//! endpoint has closed it is found when it is used again, before anything is sent.
//!
//! A connection gets a task of its own when it must go on while the response is not polled: an upload goes on even if
//! the client does not read yet, and an upgrade ends the exchange but not the connection.

use super::{
    body::PolledFrame,
    http1::socket::{Attached, Parked},
};
use crate::task::spawn_local;
use futures::task::AtomicWaker;
use http_body::Body as _;
use hyper::{body::Incoming, client::conn::http1::SendRequest};
use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{
            AtomicU8,
            Ordering::{AcqRel, Release},
        },
    },
    task::{Context, Poll, Wake, Waker},
};

/// A connection, and the handle that sends requests over it.
pub(super) struct Driven<B> {
    link: Link<B>,
    relay: Arc<Relay>,
    /// The relay as a waker.
    waker: Waker,
}

enum Link<B> {
    /// The exchange polls the connection.
    Attached(SendRequest<B>, Box<dyn Attached<B>>),
    /// It has a task of its own.
    Detached(SendRequest<B>),
    /// It has been idle for a while.
    Parked(Box<dyn Parked<B>>),
    Closed,
}

impl<B: 'static> Driven<B> {
    pub(super) fn new(sender: SendRequest<B>, connection: Box<dyn Attached<B>>) -> Self {
        let relay = Arc::new(Relay::default());
        Self {
            link: Link::Attached(sender, connection),
            waker: relay.clone().into(),
            relay,
        }
    }

    /// The handle that sends requests. `None` while the connection is parked, or closed.
    pub(super) fn sender(&mut self) -> Option<&mut SendRequest<B>> {
        match &mut self.link {
            Link::Attached(sender, _) | Link::Detached(sender) => Some(sender),
            Link::Parked(_) | Link::Closed => None,
        }
    }

    /// Polls the connection, and then the exchange by `poll`.
    pub(super) fn drive<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let Link::Attached(_, connection) = &mut self.link else {
            return poll(cx);
        };
        self.relay.hold_back(cx.waker());
        let mut own = Context::from_waker(&self.waker);
        if connection.poll(&mut own).is_ready() {
            self.link = Link::Closed;
            return poll(cx);
        }
        let polled = poll(&mut own);
        if polled.is_pending() {
            self.relay.pass_on();
        }
        polled
    }

    /// Takes the next frame of a response's body.
    pub(super) fn poll_frame(
        &mut self,
        incoming: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> PolledFrame {
        if let Link::Attached(..) = self.link {
            // Often it came with the head.
            let mut own = Context::from_waker(&self.waker);
            let frame = Pin::new(&mut *incoming).poll_frame(&mut own);
            if frame.is_ready() {
                return frame;
            }
        }
        self.drive(cx, |cx| Pin::new(incoming).poll_frame(cx))
    }

    /// Whether the connection takes a request. One that was parked is attached again for that, and one that has just
    /// served another may need a last poll.
    pub(super) fn is_ready(&mut self) -> bool {
        if let Link::Parked(_) = self.link
            && let Link::Parked(parked) = self.take()
            && let Some((sender, connection)) = parked.attach()
        {
            self.link = Link::Attached(sender, connection);
        }
        if let Link::Attached(sender, connection) = &mut self.link
            && !sender.is_ready()
        {
            let mut own = Context::from_waker(&self.waker);
            if connection.poll(&mut own).is_ready() {
                self.link = Link::Closed;
            }
        }
        self.sender().is_some_and(|sender| sender.is_ready())
    }

    /// Whether the connection serves another request after the one that is complete. One that does not is about to close.
    pub(super) fn is_open(&mut self) -> bool {
        match &self.link {
            Link::Attached(..) => self.is_ready(),
            Link::Detached(_) | Link::Parked(_) | Link::Closed => !self.is_closed(),
        }
    }

    /// Whether the connection has ended, as far as is known.
    pub(super) fn is_closed(&self) -> bool {
        match &self.link {
            Link::Attached(sender, _) | Link::Detached(sender) => sender.is_closed(),
            Link::Parked(_) => false,
            Link::Closed => true,
        }
    }

    /// Gives the connection a task of its own.
    pub(super) fn detach(&mut self) {
        match self.take() {
            Link::Attached(sender, connection) => {
                spawn_local(connection.detach());
                self.link = Link::Detached(sender);
            }
            other => self.link = other,
        }
    }

    /// Frees the buffers of an idle connection. One with a task of its own stays as it is.
    pub(super) fn park(&mut self) {
        if !self.may_park() {
            return;
        }
        let idle = self.is_ready();
        // The waker of the last exchange keeps what its task took.
        drop(self.relay.task.take());
        self.link = match self.take() {
            Link::Attached(_, connection) if idle => {
                connection.park().map_or(Link::Closed, Link::Parked)
            }
            // It has ended, or has not ended its last exchange after all that time.
            _ => Link::Closed,
        };
    }

    /// Whether it has buffers that an idle connection can free.
    pub(super) fn may_park(&self) -> bool {
        matches!(self.link, Link::Attached(..))
    }

    fn take(&mut self) -> Link<B> {
        std::mem::replace(&mut self.link, Link::Closed)
    }
}

/// The waker of a connection: passes wakes between two polls on to the exchange's task.
///
/// During a poll, what wakes the connection or the exchange comes from the other one of the two, and both are polled
/// anyway; passed on, it would make the task run once more for nothing.
#[derive(Debug, Default)]
struct Relay {
    state: AtomicU8,
    task: AtomicWaker,
}

impl Relay {
    fn hold_back(&self, task: &Waker) {
        self.task.register(task);
        self.state.store(HOLDS_BACK, Release);
    }

    fn pass_on(&self) {
        if self.state.swap(PASSES_ON, AcqRel) == WOKEN {
            self.task.wake();
        }
    }
}

impl Wake for Relay {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(WOKEN, AcqRel) == PASSES_ON {
            self.task.wake();
        }
    }
}

/// Wakes are noted.
const HOLDS_BACK: u8 = 0;
/// There was a wake since the last poll of the connection began.
const WOKEN: u8 = 1;
/// Wakes go to the task.
const PASSES_ON: u8 = 2;
