//! The connections of one endpoint, kept for reuse.

use super::{
    binding::Binding,
    pools::{Http1Pools, IdleLeft, MaintainPool, PoolEntry},
    socket::attach,
};
use crate::{
    Backoff, EndpointStatus, Error, Reason,
    http::{
        HttpRequest, Now, RequestContext,
        client::{
            body::{Lease, PolledFrame},
            driven::Driven,
            failure::classify,
        },
    },
    reconnect::{Connects, Reconnect, reconnect},
    task::spawn_local,
    tls::EndpointTrust,
    transport::{self, Duplex, Peek},
};
use bytes::Bytes;
use http_body::Body;
use hyper::body::Incoming;
use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    rc::{Rc, Weak},
    task::Context,
    time::{Duration, SystemTime},
};
use tokio::time::Instant;
use tower_service::Service;

/// Idle connections, and the means to open new ones.
pub(super) struct Pool<C, B> {
    connect: C,
    pub(super) reconnect: Reconnect,
    /// The most recently used last: it is the least likely to have been closed by the endpoint.
    #[expect(
        clippy::vec_box,
        reason = "an exchange holds its connection by this box"
    )]
    idle: RefCell<Vec<Box<Connection<C, B>>>>,
    open: Cell<usize>,
    entry: PoolEntry,
}

/// A connection of a pool, returned to the pool when an exchange is complete.
pub(super) struct Connection<C, B> {
    pub(super) driven: Driven<B>,
    pool: Weak<Pool<C, B>>,
    /// The requests that the connection may carry.
    pub(super) binding: Binding,
    /// Whether the connection serves another exchange after this one.
    pub(super) reusable: bool,
    idle_since: Instant,
    /// The runtime's round in which the connection became idle.
    idle_round: u32,
    /// Checks the socket for unread bytes.
    peek: Option<Peek>,
    /// The trust in the endpoint, if the connection is encrypted.
    trust: Option<EndpointTrust>,
    /// The context of the request that is being sent.
    pub(super) context: Option<RequestContext>,
}

impl<C: 'static, B: 'static> Pool<C, B> {
    pub(super) fn new(
        connect: C,
        pools: &Http1Pools,
        backoff: Backoff,
        status: EndpointStatus,
    ) -> Rc<Self> {
        Rc::new_cyclic(|pool: &Weak<Self>| {
            let pool = pool.clone();
            status.set_inspect(move || pool.upgrade().map(|pool| pool.inspect()).into());
            Self {
                connect,
                reconnect: Reconnect::new(backoff, status),
                idle: RefCell::default(),
                open: Cell::new(0),
                entry: pools.entry(),
            }
        })
    }

    fn inspect(&self) -> serde_json::Value {
        serde_json::json!({
            "protocol": "HTTP/1",
            "open": self.open.get(),
            "idle": self.idle.borrow().len(),
            "max_idle": self.entry.settings().max_idle,
        })
    }

    /// Takes an idle connection that is still open and may carry the request. [`Pool::maintain`] removes connections that were
    /// idle for too long.
    ///
    /// A connection on which the endpoint sent bytes while it was idle is discarded: the next request would take them for its
    /// response. The runtime notices such bytes when it polls the system, which it has not done yet for a connection that became
    /// idle in the present round. So other connections are preferred, and if there is none the socket is checked.
    pub(super) fn checkout(&self, request: &HttpRequest<B>) -> Option<Box<Connection<C, B>>> {
        let mut idle = self.idle.borrow_mut();
        let round = transport::round();
        loop {
            // Clients can name any number of hosts, each with its own connection.
            let first = idle.len().saturating_sub(MOST_LOOKED_AT);
            let recent = idle[first..].iter();
            let allowed = |idle: &Connection<C, B>| idle.binding.allows(request);
            let known = recent
                .clone()
                .rposition(|idle| idle.idle_round != round && allowed(idle));
            let mut connection = match known {
                Some(at) => idle.remove(first + at),
                None => {
                    let at = recent.clone().rposition(|idle| allowed(idle))?;
                    idle.remove(first + at)
                }
            };
            let has_unread = |peek: &Peek| known.is_none() && peek.has_unread();
            if !connection.peek.as_ref().is_some_and(has_unread) && connection.driven.is_ready() {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection, idle from now on, for another exchange.
    pub(super) fn put(self: &Rc<Self>, mut connection: Box<Connection<C, B>>, now: Instant) {
        let max_idle = self.entry.settings().max_idle;
        if max_idle == 0 || !connection.driven.is_open() || !connection.is_trusted() {
            return;
        }
        let mut idle = self.idle.borrow_mut();
        if idle.len() >= max_idle {
            // The oldest is the most likely to have been closed by the endpoint.
            idle.remove(0);
        }
        connection.idle_since = now;
        connection.idle_round = transport::round();
        idle.push(connection);
        self.entry.has_warm(self);
    }
}

impl<C, B> Connection<C, B> {
    fn is_trusted(&self) -> bool {
        let trust = self.trust.as_ref();
        trust.is_none_or(|trust| trust.holds(SystemTime::now()))
    }
}

impl<C: 'static, B: 'static> Lease for Connection<C, B> {
    fn poll_frame(&mut self, incoming: &mut Incoming, cx: &mut Context<'_>) -> PolledFrame {
        self.driven.poll_frame(incoming, cx)
    }

    fn complete(self: Box<Self>, now: &Now) {
        if self.reusable
            && let Some(pool) = self.pool.upgrade()
        {
            pool.put(self, now.get());
        }
    }
}

impl<C: 'static, B: 'static> MaintainPool for Pool<C, B> {
    fn maintain(&self, now: Instant, park: Duration) -> Option<IdleLeft> {
        let timeout = self.entry.settings().idle_timeout;
        let mut idle = self.idle.borrow_mut();
        for idle in idle.iter_mut().filter(|idle| idle.idle_since + park <= now) {
            idle.driven.park();
        }
        idle.retain(|idle| {
            !idle.driven.is_closed() && idle.idle_since + timeout > now && idle.is_trusted()
        });
        let warm = |idle: &Connection<C, B>| idle.driven.may_park();
        let due = |idle: &Connection<C, B>| match warm(idle) {
            true => idle.idle_since + park.min(timeout),
            false => idle.idle_since + timeout,
        };
        Some(IdleLeft {
            due: idle.iter().map(|idle| due(idle)).min()?,
            warm: idle.iter().any(|idle| warm(idle)),
        })
    }

    fn entry(&self) -> &PoolEntry {
        &self.entry
    }
}

impl<C, B, I> Pool<C, B>
where
    C: Service<(), Response = I, Error = Error> + Clone + 'static,
    I: Duplex + Send + 'static,
    B: Body<Data = Bytes, Error: Into<crate::BoxError>> + 'static,
{
    /// Connects, and records a failure.
    pub(super) async fn connect(self: &Rc<Self>) -> Result<Box<Connection<C, B>>, Error> {
        match self.dial().await {
            Ok(connection) => {
                self.reconnect.succeeded();
                Ok(connection)
            }
            Err(error) => {
                // A lack of descriptors in this proxy says nothing about the endpoint.
                if error.reason() != Reason::DescriptorLimit && self.reconnect.failed(&error) {
                    reconnect(self);
                }
                Err(error)
            }
        }
    }

    async fn dial(self: &Rc<Self>) -> Result<Box<Connection<C, B>>, Error> {
        let mut connect = self.connect.clone();
        poll_fn(|cx| connect.poll_ready(cx)).await?;
        let io = connect.call(()).await?;
        let (peek, trust) = (io.peek(), io.endpoint_trust());
        if let Some(trust) = &trust {
            // An exchange runs in the task of its request, which may take for ever.
            spawn_local(trust.enforce());
        }
        let (sender, connection) = attach(io, Some(Open::new(self))).await.map_err(classify)?;
        Ok(Box::new(Connection {
            driven: Driven::new(sender, connection),
            pool: Rc::downgrade(self),
            binding: Binding::new(self.entry.are_bound()),
            reusable: true,
            idle_since: Instant::now(),
            idle_round: transport::round(),
            peek,
            trust,
            context: None,
        }))
    }
}

/// Reconnects in the background until the endpoint accepts, so that no request has to find out.
impl<C, B, I> Connects for Pool<C, B>
where
    C: Service<(), Response = I, Error = Error> + Clone + 'static,
    I: Duplex + Send + 'static,
    B: Body<Data = Bytes, Error: Into<crate::BoxError>> + 'static,
{
    fn reconnect(&self) -> &Reconnect {
        &self.reconnect
    }

    async fn attempt(self: &Rc<Self>) -> Result<(), Error> {
        let connection = self.dial().await?;
        self.put(connection, Instant::now());
        self.reconnect.succeeded();
        Ok(())
    }
}

/// Counts a connection as long as it is open.
struct Open<C, B>(Weak<Pool<C, B>>);

impl<C, B> Open<C, B> {
    fn new(pool: &Rc<Pool<C, B>>) -> Self {
        pool.open.set(pool.open.get() + 1);
        Self(Rc::downgrade(pool))
    }
}

impl<C, B> Drop for Open<C, B> {
    fn drop(&mut self) {
        if let Some(pool) = self.0.upgrade() {
            pool.open.set(pool.open.get() - 1);
        }
    }
}

/// Idle connections that are examined for one that may carry a request.
pub(super) const MOST_LOOKED_AT: usize = 64;
