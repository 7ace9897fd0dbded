//! An HTTP/1 connection that is driven by the exchange that uses it.
//!
//! hyper's connection is a future that has to be polled. With a separate task for the connection, each exchange wakes that
//! task, is woken by it, and wakes it again after taking the body: five polls of tasks where two are enough. So the exchange
//! polls the connection itself, from the request's first byte to the response's last. An idle connection is not polled; a
//! close by the endpoint is found when the connection is used again, before anything is sent.
//!
//! A connection gets its own task when it must go on while the response is not polled: an upload goes on even if the client
//! does not read yet, and an upgrade ends the exchange but not the connection.

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
    task::{Context, Wake, Waker},
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
    /// A separate task polls the connection.
    Detached(SendRequest<B>),
    /// Idle, with its buffers freed.
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

    /// Polls the connection. Returns the context in which the exchange has to be polled next; [`Driven::polled`] comes after it.
    ///
    /// Two steps in place of a closure, through which the response would be moved.
    pub(super) fn poll<'a>(&'a mut self, cx: &'a Context<'_>) -> Context<'a> {
        let Link::Attached(_, connection) = &mut self.link else {
            return Context::from_waker(cx.waker());
        };
        self.relay.hold_back(cx.waker());
        let mut own = Context::from_waker(&self.waker);
        if connection.poll(&mut own).is_ready() {
            self.link = Link::Closed;
            return Context::from_waker(cx.waker());
        }
        own
    }

    /// The exchange was polled. If it waits, so does its task.
    pub(super) fn polled(&self, is_pending: bool) {
        if is_pending && let Link::Attached(..) = self.link {
            self.relay.pass_on();
        }
    }

    /// Takes the next frame of a response's body.
    pub(super) fn poll_frame(
        &mut self,
        incoming: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> PolledFrame {
        if let Link::Attached(..) = self.link {
            // Often the frame came with the head.
            let mut own = Context::from_waker(&self.waker);
            let frame = Pin::new(&mut *incoming).poll_frame(&mut own);
            if frame.is_ready() {
                return frame;
            }
        }
        let frame = Pin::new(incoming).poll_frame(&mut self.poll(cx));
        self.polled(frame.is_pending());
        frame
    }

    /// Whether the connection takes a request. A parked connection is attached again first; a connection that has just served
    /// another request may need a last poll.
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

    /// Whether the connection serves another request after the complete one. If not, it is about to close.
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

    /// Moves the connection to its own task.
    pub(super) fn detach(&mut self) {
        match self.take() {
            Link::Attached(sender, connection) => {
                spawn_local(connection.detach());
                self.link = Link::Detached(sender);
            }
            other => self.link = other,
        }
    }

    /// Frees the buffers of an idle connection. A connection with its own task is left as it is.
    pub(super) fn park(&mut self) {
        if !self.may_park() {
            return;
        }
        let idle = self.is_ready();
        // The waker of the last exchange keeps the memory of its task.
        drop(self.relay.task.take());
        self.link = match self.take() {
            Link::Attached(_, connection) if idle => {
                connection.park().map_or(Link::Closed, Link::Parked)
            }
            // The connection has ended, or its last exchange has still not ended.
            _ => Link::Closed,
        };
    }

    /// Whether the connection has buffers that can be freed when it is idle.
    pub(super) fn may_park(&self) -> bool {
        matches!(self.link, Link::Attached(..))
    }

    fn take(&mut self) -> Link<B> {
        std::mem::replace(&mut self.link, Link::Closed)
    }
}

/// The waker of a connection: passes wakes between two polls on to the exchange's task.
///
/// During a poll, the connection is woken by the exchange, or the exchange by the connection, and both are polled anyway;
/// passed on, the wake would make the task run once more for nothing.
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
