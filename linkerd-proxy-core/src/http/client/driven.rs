//! An HTTP/1 connection that is driven by the exchange that uses it.
//!
//! hyper's connection is a future that somebody has to poll. In a task of its own, each exchange wakes that task, is woken
//! by it, and wakes it again for having taken the body: five polls of tasks where two are enough. So the exchange polls
//! the connection itself, from the request's first byte to the response's last. Nobody polls an idle connection; that the
//! endpoint has closed it is found when it is used again, before anything is sent.
//!
//! A connection gets a task of its own when it must go on while nobody asks for the response: an upload goes on even if
//! the client does not read yet, and an upgrade ends the exchange but not the connection.

use super::body::PolledFrame;
use futures::{FutureExt, future::LocalBoxFuture, task::AtomicWaker};
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
    pub(super) sender: SendRequest<B>,
    /// `None` if it has ended, or has a task of its own.
    connection: Option<LocalBoxFuture<'static, ()>>,
    relay: Arc<Relay>,
    /// The relay as a waker.
    waker: Waker,
}

impl<B> Driven<B> {
    pub(super) fn new(
        sender: SendRequest<B>,
        connection: impl Future<Output = ()> + 'static,
    ) -> Self {
        let relay = Arc::new(Relay::default());
        Self {
            sender,
            connection: Some(connection.boxed_local()),
            waker: relay.clone().into(),
            relay,
        }
    }

    /// Polls the connection, and then what waits for it.
    pub(super) fn drive<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let Some(connection) = &mut self.connection else {
            return poll(cx);
        };
        self.relay.hold_back(cx.waker());
        let mut own = Context::from_waker(&self.waker);
        if connection.as_mut().poll(&mut own).is_ready() {
            self.connection = None;
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
        if self.connection.is_some() {
            // Often it came with the head.
            let mut own = Context::from_waker(&self.waker);
            let frame = Pin::new(&mut *incoming).poll_frame(&mut own);
            if frame.is_ready() {
                return frame;
            }
        }
        self.drive(cx, |cx| Pin::new(incoming).poll_frame(cx))
    }

    /// Whether the connection takes a request. One that has just served another may need a last poll for that.
    pub(super) fn is_ready(&mut self) -> bool {
        if !self.sender.is_ready()
            && let Some(connection) = &mut self.connection
        {
            let mut own = Context::from_waker(&self.waker);
            if connection.as_mut().poll(&mut own).is_ready() {
                self.connection = None;
            }
        }
        self.sender.is_ready()
    }

    /// Whether the connection has ended, as far as is known.
    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Gives the connection a task of its own.
    pub(super) fn detach(&mut self) {
        if let Some(connection) = self.connection.take() {
            tokio::task::spawn_local(connection);
        }
    }
}

/// The waker of a connection: passes on to the exchange's task what happens between its polls.
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
