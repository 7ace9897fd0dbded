//! Connections dialled by this proxy, to recognise a connection that is redirected back to it.
//!
//! Redirection rules without an exception for the proxy's own user send each of its own connections back to it; each would
//! be dialled once more, until descriptors run out. A connection is recognised by both of its ends: the system uses a local
//! address for several destinations at a time, so that one end alone would match innocent clients.
//!
//! Even both ends may match a client: redirection gives a client another port if its own was used lately, possibly the port
//! of a connection of this proxy. Without the exception all connections come back, while such clients are few: a connection is
//! refused only when more than half of the open connections seem to have come back. A loop that begins beside healthy
//! connections grows to their number before it ends.

use super::address::reached;
use crate::{Error, Reason};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

/// A side of the proxy that dials or accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Connections of the application.
    Outbound,
    /// Connections to the application.
    Inbound,
    /// Connections to the control plane.
    Control,
}

impl Side {
    /// The name in headers and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Outbound => "outbound",
            Self::Inbound => "inbound",
            Self::Control => "control",
        }
    }
}

/// The open connections that this proxy has dialled. Clones share them.
///
/// - **Bounds**: file descriptors.
/// - **Costs** a lock for each connection that is dialled, accepted or closed; nothing for a request.
#[derive(Clone, Debug, Default)]
pub struct OwnConnections(Arc<Table>);

#[derive(Debug, Default)]
struct Table {
    open: Mutex<Open>,
    warned: AtomicBool,
}

#[derive(Debug, Default)]
struct Open {
    entries: HashMap<Ends, Entry>,
    /// The number of entries whose ends were seen again.
    seen_again: usize,
}

/// The two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Ends {
    from: SocketAddr,
    to: SocketAddr,
}

#[derive(Debug)]
struct Entry {
    side: Side,
    /// An accepted connection had the same ends.
    seen_again: bool,
    /// The accepted connection was refused.
    came_back: Arc<AtomicBool>,
}

/// An open connection in the table; dropping it removes the entry.
#[derive(Debug)]
pub struct OwnConnection {
    all: OwnConnections,
    ends: Ends,
    came_back: Arc<AtomicBool>,
}

/// A connection came back to the proxy that had dialled it.
#[derive(Debug, thiserror::Error)]
#[error("the connection to {to} came back to this proxy")]
pub struct LoopError {
    to: SocketAddr,
}

impl OwnConnections {
    /// Dials by `connect`, which does not wait and returns the local address. The table is locked meanwhile, so that
    /// the connection cannot be accepted before its entry exists.
    pub(super) fn dial(
        &self,
        side: Side,
        to: SocketAddr,
        connect: impl FnOnce() -> io::Result<SocketAddr>,
    ) -> io::Result<OwnConnection> {
        let mut open = self.0.open.lock();
        let ends = Ends::new(connect()?, to);
        let came_back = Arc::new(AtomicBool::new(false));
        let entry = Entry {
            side,
            seen_again: false,
            came_back: came_back.clone(),
        };
        open.remove(&ends);
        open.entries.insert(ends, entry);
        drop(open);
        Ok(OwnConnection {
            all: self.clone(),
            ends,
            came_back,
        })
    }

    /// Refuses an accepted connection that this proxy has dialled itself, as far as is known. `to` is its original
    /// destination.
    ///
    /// The inbound side may accept a connection of the outbound side: an application that calls its own service.
    pub fn check_accepted(
        &self,
        side: Side,
        from: SocketAddr,
        to: SocketAddr,
    ) -> Result<(), Error> {
        let mut open = self.0.open.lock();
        let Open {
            entries,
            seen_again,
        } = &mut *open;
        let all = entries.len();
        let Some(entry) = entries.get_mut(&Ends::new(from, to)) else {
            return Ok(());
        };
        if (entry.side, side) == (Side::Outbound, Side::Inbound) {
            return Ok(());
        }
        if !std::mem::replace(&mut entry.seen_again, true) {
            *seen_again += 1;
        }
        if *seen_again <= all / 2 {
            return Ok(());
        }
        entry.came_back.store(true, Relaxed);
        drop(open);
        self.warn(to);
        let detail = LoopError { to }.to_string();
        Err(Error::new(Reason::Loop).peer(to).detail(detail))
    }

    /// The number of open connections, for `/state`.
    pub fn inspect(&self) -> serde_json::Value {
        serde_json::json!({
            "open": self.0.open.lock().entries.len(),
            "limit": "file descriptors",
        })
    }

    /// Logs the first loop; later ones only show as failures of their requests.
    fn warn(&self, to: SocketAddr) {
        if !self.0.warned.swap(true, Relaxed) {
            let uid = rustix::process::getuid().as_raw();
            tracing::warn!(
                %to,
                "a connection that this proxy dialled came back to it and was refused: the redirection rules lack an \
                 exception for the proxy's own user (iptables -t nat -I OUTPUT -m owner --uid-owner {uid} -j RETURN)"
            );
        }
    }
}

impl Open {
    fn remove(&mut self, ends: &Ends) {
        let removed = self.entries.remove(ends);
        self.seen_again -= usize::from(removed.is_some_and(|entry| entry.seen_again));
    }
}

impl Ends {
    fn new(from: SocketAddr, to: SocketAddr) -> Self {
        Self {
            from: reached(from),
            to: reached(to),
        }
    }
}

impl OwnConnection {
    /// The cause of this connection's failure, if it came back to the proxy.
    pub fn loop_error(&self) -> Option<LoopError> {
        let came_back = self.came_back.load(Relaxed);
        came_back.then_some(LoopError { to: self.ends.to })
    }
}

impl Drop for OwnConnection {
    fn drop(&mut self) {
        let mut open = self.all.0.open.lock();
        // The system may have reused the same ends for another connection, which then owns the entry.
        let is_this = |entry: &Entry| Arc::ptr_eq(&entry.came_back, &self.came_back);
        if open.entries.get(&self.ends).is_some_and(is_this) {
            open.remove(&self.ends);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: &str = "10.0.0.1:40000";
    const TO: &str = "10.0.0.2:80";

    fn dialled(own: &OwnConnections, side: Side) -> OwnConnection {
        let local = FROM.parse().unwrap();
        own.dial(side, TO.parse().unwrap(), || Ok(local)).unwrap()
    }

    fn accepted(own: &OwnConnections, side: Side, from: &str, to: &str) -> Option<Reason> {
        let checked = own.check_accepted(side, from.parse().unwrap(), to.parse().unwrap());
        checked.err().map(|error| error.reason())
    }

    #[test]
    fn a_connection_that_comes_back_is_a_loop() {
        let own = OwnConnections::default();
        let connection = dialled(&own, Side::Outbound);
        assert!(connection.loop_error().is_none());
        let refused = accepted(&own, Side::Outbound, FROM, TO);
        assert_eq!(refused, Some(Reason::Loop));
        assert!(connection.loop_error().is_some());
        let mapped = accepted(&own, Side::Outbound, "[::ffff:10.0.0.1]:40000", TO);
        assert_eq!(mapped, Some(Reason::Loop));
    }

    #[test]
    fn a_client_that_has_got_the_port_of_a_connection_is_none() {
        let own = OwnConnections::default();
        let dial = |port| {
            let local = SocketAddr::new("10.0.0.1".parse().unwrap(), port);
            own.dial(Side::Outbound, TO.parse().unwrap(), || Ok(local))
        };
        let connections: Vec<_> = (40000..40004).map(|port| dial(port).unwrap()).collect();
        for from in ["10.0.0.1:40000", "10.0.0.1:40001", "10.0.0.1:40001"] {
            assert_eq!(accepted(&own, Side::Outbound, from, TO), None);
        }
        assert!(connections.iter().all(|own| own.loop_error().is_none()));
        // More than a few are no accident.
        let third = accepted(&own, Side::Outbound, "10.0.0.1:40002", TO);
        assert_eq!(third, Some(Reason::Loop));
        assert!(connections[2].loop_error().is_some());
        drop(connections);
        assert_eq!(own.0.open.lock().seen_again, 0);
    }

    #[test]
    fn another_client_with_the_same_port_is_none() {
        let own = OwnConnections::default();
        let _connection = dialled(&own, Side::Outbound);
        assert_eq!(accepted(&own, Side::Outbound, FROM, "10.0.0.3:80"), None);
        assert_eq!(accepted(&own, Side::Outbound, "10.0.0.9:40000", TO), None);
    }

    #[test]
    fn an_application_may_call_its_own_service() {
        let own = OwnConnections::default();
        let from_outbound = dialled(&own, Side::Outbound);
        assert_eq!(accepted(&own, Side::Inbound, FROM, TO), None);
        drop(from_outbound);
        let _from_inbound = dialled(&own, Side::Inbound);
        let refused = accepted(&own, Side::Inbound, FROM, TO);
        assert_eq!(refused, Some(Reason::Loop));
    }

    #[test]
    fn a_connection_that_was_closed_does_not_hide_one_that_has_got_its_ends() {
        let own = OwnConnections::default();
        let closed = dialled(&own, Side::Outbound);
        let open = dialled(&own, Side::Outbound);
        drop(closed);
        let refused = accepted(&own, Side::Outbound, FROM, TO);
        assert_eq!(refused, Some(Reason::Loop));
        drop(open);
        assert_eq!(own.inspect()["open"], 0);
    }

    #[test]
    fn a_connection_that_was_closed_is_forgotten() {
        let own = OwnConnections::default();
        drop(dialled(&own, Side::Control));
        assert_eq!(accepted(&own, Side::Outbound, FROM, TO), None);
        assert_eq!(own.inspect()["open"], 0);
    }
}
