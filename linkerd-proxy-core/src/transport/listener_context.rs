//! The part of a listener that its connections share.

use super::{Duplex, open_connections::OpenConnections};
use crate::{Reason, drain};
use std::{
    cell::{Cell, RefCell},
    rc::{Rc, Weak},
    task::Waker,
};

/// A listener's drain and its open connections; each [`ClientInfo`](super::ClientInfo) carries it.
#[derive(Debug)]
pub struct ListenerContext {
    drain: drain::Handle,
    open: RefCell<OpenConnections>,
    /// The reason for which its connections were cut off.
    cut_off: Cell<Option<Reason>>,
    /// Contexts of some of the connections. Dropped ones are removed when another is added.
    parts: RefCell<Vec<Weak<ListenerContext>>>,
    is_part: bool,
    /// Held while there are connections: they are counted on their own thread, and one hold for all of them is taken on the
    /// drain, which threads share.
    hold: RefCell<Option<drain::Watch>>,
}

/// Counts a connection of a listener, and delays the end of the listener's drain until dropped.
#[derive(Debug)]
#[must_use = "dropping the guard lets drain end before the connection"]
pub struct ConnectionGuard {
    listener: Rc<ListenerContext>,
    number: usize,
}

impl ListenerContext {
    /// A context for some connections of this listener, such as those of one peer, which `Signal` ends before the others. It is cut off
    /// with the listener, and its guards delay the listener's drain.
    pub fn part(self: &Rc<Self>) -> (drain::Signal, Rc<Self>) {
        let (signal, drain) = self.drain.child();
        let part = Rc::new(Self {
            is_part: true,
            cut_off: self.cut_off.clone(),
            ..Self::of(drain)
        });
        let mut parts = self.parts.borrow_mut();
        parts.retain(|part| part.strong_count() > 0);
        parts.push(Rc::downgrade(&part));
        (signal, part)
    }

    /// The context of a listener without connections.
    pub fn new(drain: drain::Handle) -> Rc<Self> {
        Rc::new(Self::of(drain))
    }

    fn of(drain: drain::Handle) -> Self {
        Self {
            drain,
            open: RefCell::default(),
            cut_off: Cell::new(None),
            parts: RefCell::default(),
            is_part: false,
            hold: RefCell::new(None),
        }
    }

    /// Whether this is the context of some connections of a listener.
    pub(super) fn is_part(&self) -> bool {
        self.is_part
    }

    /// Counts a connection. Another guard may count the same connection, such as one that becomes a tunnel.
    pub fn connection(self: &Rc<Self>) -> ConnectionGuard {
        let mut open = self.open.borrow_mut();
        if open.count() == 0 {
            *self.hold.borrow_mut() = Some(self.drain.watch());
        }
        ConnectionGuard {
            number: open.add(),
            listener: self.clone(),
        }
    }

    /// The number of open connections.
    pub fn connections(&self) -> usize {
        self.open.borrow().count()
    }

    /// Cuts off the open connections, and any that come later. Sockets end with a reset: a plain end might look like the
    /// end of a response.
    pub fn cut_off(&self, reason: Reason) {
        self.cut_off.set(Some(reason));
        self.open.borrow().cut_off();
        let parts = self.parts.borrow();
        let parts: Vec<_> = parts.iter().filter_map(Weak::upgrade).collect();
        for part in parts {
            part.cut_off(reason);
        }
    }

    /// The reason for which the connections were cut off, if they were.
    pub fn cut_off_reason(&self) -> Option<Reason> {
        self.cut_off.get()
    }

    /// The drain of the listener, which is also signalled with that of the process.
    pub fn drain(&self) -> &drain::Handle {
        &self.drain
    }
}

impl ConnectionGuard {
    /// Makes `client` end with a reset if the connection is cut off.
    pub fn resets(&self, client: &impl Duplex) {
        let socket = client.peek().map(|peek| peek.downgrade());
        let mut open = self.listener.open.borrow_mut();
        open.set_socket(self.number, socket);
    }

    /// The reason for which the listener has cut off the connection.
    pub(super) fn cut_off_reason(&self) -> Option<Reason> {
        self.listener.cut_off_reason()
    }

    /// Wakes `task` when the listener cuts off the connection.
    pub(super) fn watched_by(&self, task: &Waker) {
        let mut open = self.listener.open.borrow_mut();
        open.set_task(self.number, task.clone());
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        let mut open = self.listener.open.borrow_mut();
        let ended = open.remove(self.number);
        let left = open.count();
        drop(open);
        drop(ended);
        if left == 0 {
            *self.listener.hold.borrow_mut() = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio_test::{assert_pending, assert_ready, task};

    #[tokio::test]
    async fn a_part_ends_alone_or_with_its_listener() {
        let (signal, drain) = drain::channel();
        let listener = ListenerContext::new(drain);
        let (part_signal, part) = listener.part();
        let (other_signal, other) = listener.part();
        let guard = other.connection();
        part_signal.signal();
        part.cut_off(Reason::ClientUntrusted);
        assert!(part.drain().is_draining());
        assert!(!listener.drain().is_draining() && !other.drain().is_draining());
        assert_eq!(
            (listener.cut_off_reason(), other.cut_off_reason()),
            (None, None)
        );
        let mut drained = task::spawn(signal.drain());
        assert_pending!(drained.poll());
        assert!(other.drain().is_draining());
        listener.cut_off(Reason::ShutdownDeadline);
        assert_eq!(other.cut_off_reason(), Some(Reason::ShutdownDeadline));
        drop((guard, other_signal));
        assert_ready!(drained.poll());
    }

    #[tokio::test]
    async fn a_listener_drains_until_its_last_connection_has_ended() {
        let (signal, drain) = drain::channel();
        let listener = ListenerContext::new(drain);
        drop(listener.connection());
        let (one, two) = (listener.connection(), listener.connection());
        assert_eq!(listener.connections(), 2);
        let mut drained = task::spawn(signal.drain());
        assert_pending!(drained.poll());
        assert!(listener.drain().is_draining());
        drop(one);
        assert_pending!(drained.poll());
        drop(two);
        assert_eq!(listener.connections(), 0);
        assert_ready!(drained.poll());
        // A connection that comes too late is counted, and harms nothing.
        drop(listener.connection());
    }
}
