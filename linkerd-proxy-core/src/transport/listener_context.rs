//! The part of a listener that its connections share.

use crate::drain;
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

/// A listener's drain and the number of its connections; each [`ClientInfo`](super::ClientInfo) carries it.
#[derive(Debug)]
pub struct ListenerContext {
    drain: drain::Handle,
    connections: Cell<usize>,
    /// Held while there are connections: they count on their own thread, and one of them for all on the drain that
    /// the threads share.
    hold: RefCell<Option<drain::Watch>>,
}

/// Counts a connection of a listener, and delays the end of the listener's drain until dropped.
#[derive(Debug)]
#[must_use = "dropping the guard lets drain end before the connection"]
pub struct ConnectionGuard(Rc<ListenerContext>);

impl ListenerContext {
    /// The context of a listener without connections.
    pub fn new(drain: drain::Handle) -> Rc<Self> {
        Rc::new(Self {
            drain,
            connections: Cell::new(0),
            hold: RefCell::new(None),
        })
    }

    /// Counts a connection. It may still be counted by another guard, as one that becomes a tunnel.
    pub fn connection(self: &Rc<Self>) -> ConnectionGuard {
        let count = self.connections.get();
        if count == 0 {
            *self.hold.borrow_mut() = Some(self.drain.watch());
        }
        self.connections.set(count + 1);
        ConnectionGuard(self.clone())
    }

    /// The number of open connections.
    pub fn connections(&self) -> usize {
        self.connections.get()
    }

    /// The drain of the listener, which is signalled with that of the process, too.
    pub fn drain(&self) -> &drain::Handle {
        &self.drain
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        let count = self.0.connections.get() - 1;
        self.0.connections.set(count);
        if count == 0 {
            *self.0.hold.borrow_mut() = None;
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
        // One that comes too late is counted, and harms nothing.
        drop(listener.connection());
    }
}
