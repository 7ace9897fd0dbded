//! Messages to the listeners of a worker.

use linkerd_proxy_core::Reason;
use std::{fmt, io, net::SocketAddr, net::TcpListener, sync::Arc, time::Duration};
use tokio::sync::oneshot;

/// A request to the listeners of a worker, answered when it is done.
#[derive(Debug)]
pub enum ListenerMessage {
    /// Accept connections of a socket.
    Add {
        /// Identifies the listener in later messages.
        id: ListenerId,
        /// The listener.
        listener: ListenerSpec,
        /// This worker's socket.
        socket: ListenerSocket,
        /// The answer: the listener accepts connections, or its socket is closed again.
        reply: oneshot::Sender<Result<(), ListenerError>>,
    },
    /// Close the socket of a listener and drain its connections.
    Remove {
        /// The listener.
        id: ListenerId,
        /// Its name.
        name: ListenerName,
        /// The drain of its connections.
        drain: ListenerDrain,
        /// The answer, once the socket is closed.
        reply: oneshot::Sender<Result<Draining, ListenerError>>,
    },
    /// Cut off the connections of all listeners.
    CutOff {
        /// The reason of their failures.
        reason: Reason,
        /// The answer, once they have ended: their number.
        reply: oneshot::Sender<Result<usize, ListenerError>>,
    },
}

/// The end of a listener's drain: the number of connections that were open when its time was over.
pub type Draining = oneshot::Receiver<usize>;

/// Identifies a listener of the proxy: an active listener and others that drain may have the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerId(pub(super) u64);

/// The socket of a listener on a worker.
#[derive(Debug)]
pub enum ListenerSocket {
    /// A socket that is bound and listens.
    Bound(TcpListener),
    /// The socket of the listener that this one replaces, shared: no connection attempt finds it closed.
    Of(ListenerId),
}

/// The drain of a listener that is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerDrain {
    /// Longest wait for the connections to end.
    pub timeout: Duration,
    /// Whether connections that are open after the timeout are cut off. Otherwise they end by themselves.
    pub cuts_off: bool,
}

/// The properties of a listener that its workers share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerSpec {
    /// Name; at most one listener of a name accepts connections.
    pub name: ListenerName,
    /// Direction of the connections.
    pub direction: Direction,
}

/// The name of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerName(Arc<str>);

/// The direction of a listener's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the application.
    Outbound,
    /// To the application.
    Inbound,
}

/// Errors when a listener is added or removed.
#[derive(Debug, thiserror::Error)]
pub enum ListenerError {
    /// The address cannot be bound.
    #[error(
        "listener {name} cannot be bound to {addr}: {error}; is another listener or process using it?"
    )]
    Bind {
        /// The listener.
        name: ListenerName,
        /// The address.
        addr: SocketAddr,
        /// The system's error.
        error: io::Error,
    },
    /// A worker cannot use the socket.
    #[error("the socket of listener {name} cannot be used: {error}")]
    Socket {
        /// The listener.
        name: ListenerName,
        /// The system's error.
        error: io::Error,
    },
    /// Another listener of the name accepts connections.
    #[error("there is a listener {0} already; remove it first, or replace it")]
    Exists(ListenerName),
    /// No listener of the name accepts connections.
    #[error("there is no listener {0}")]
    Unknown(ListenerName),
    /// The worker has as many listeners as it may have.
    #[error("there are {0} listeners already, with those that drain; no more are allowed")]
    Limit(usize),
    /// The process drains.
    #[error("the proxy is shutting down")]
    Draining,
    /// The worker's thread has ended.
    #[error("worker {0} has ended")]
    WorkerEnded(usize),
}

impl ListenerDrain {
    /// Waits for connections, which may go on after the timeout.
    pub fn wait(timeout: Duration) -> Self {
        Self {
            timeout,
            cuts_off: false,
        }
    }

    /// Waits for connections, and cuts off those that are open after the timeout.
    pub fn cut_off_after(timeout: Duration) -> Self {
        Self {
            timeout,
            cuts_off: true,
        }
    }
}

impl ListenerSpec {
    /// An outbound listener.
    pub fn outbound(name: impl Into<ListenerName>) -> Self {
        Self {
            name: name.into(),
            direction: Direction::Outbound,
        }
    }

    /// An inbound listener.
    pub fn inbound(name: impl Into<ListenerName>) -> Self {
        Self {
            name: name.into(),
            direction: Direction::Inbound,
        }
    }
}

impl Direction {
    /// Name in `/state`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Outbound => "outbound",
            Self::Inbound => "inbound",
        }
    }
}

impl<S: AsRef<str>> From<S> for ListenerName {
    fn from(name: S) -> Self {
        Self(name.as_ref().into())
    }
}

impl fmt::Display for ListenerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
