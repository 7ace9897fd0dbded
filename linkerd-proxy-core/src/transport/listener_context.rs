//! The part of a listener that its connections share.

use super::{Duplex, open_connections::OpenConnections};
use crate::{Reason, drain};
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    task::Waker,
};

/// A listener's drain and its open connections; each [`ClientInfo`](super::ClientInfo) carries it.
#[derive(Debug)]
pub struct ListenerContext {
    drain: drain::Handle,
    open: RefCell<OpenConnections>,
    /// The reason for which its connections were cut off.
    cut_off: Cell<Option<Reason>>,
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
    /// The context of a listener without connections.
    pub fn new(drain: drain::Handle) -> Rc<Self> {
        Rc::new(Self {
            drain,
            open: RefCell::default(),
            cut_off: Cell::new(None),
            hold: RefCell::new(None),
        })
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
