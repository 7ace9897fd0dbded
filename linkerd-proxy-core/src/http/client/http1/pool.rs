//! The connections of one endpoint, kept for reuse.

use super::{
    exchange::Connection,
    pools::{Http1Pools, Left, Place, Tend},
    socket::attach,
};
use crate::{
    Backoff, Error, Reason,
    http::{
        PoolSettings,
        client::{driven::Driven, failure::classify},
    },
    limits,
    redial::Redial,
    transport::{self, Duplex, Peek},
};
use bytes::Bytes;
use http_body::Body;
use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    rc::{Rc, Weak},
    time::Duration,
};
use tokio::time::Instant;
use tower_service::Service;

/// Idle connections, and a way to new ones.
pub(super) struct Pool<C, B> {
    connect: C,
    pub(super) redial: Redial,
    /// The most recently used last: that one is the least likely to have been closed by the endpoint.
    #[expect(
        clippy::vec_box,
        reason = "an exchange holds its connection by this box"
    )]
    idle: RefCell<Vec<Box<Connection<C, B>>>>,
    open: Cell<usize>,
    place: Place,
    probing: Cell<bool>,
}

impl<C, B> Pool<C, B> {
    pub(super) fn new(connect: C, pools: &Http1Pools, backoff: Backoff) -> Self {
        Self {
            connect,
            redial: Redial::new(backoff),
            idle: RefCell::default(),
            open: Cell::new(0),
            place: pools.place(),
            probing: Cell::new(false),
        }
    }

    pub(super) fn inspect(&self) -> serde_json::Value {
        let idle = self.idle.borrow().len();
        inspect_http1(self.open.get(), idle, self.place.settings())
    }
}

impl<C: 'static, B: 'static> Pool<C, B> {
    /// Takes an idle connection that still lives. [`Pool::tend`] keeps out those that were idle for too long.
    ///
    /// A connection that has sent something while it was idle is none: the next request would take it for its response.
    /// That is found when the request is sent, as far as the runtime knows; of a connection that became idle since it has
    /// asked the system, it does not. So another one is preferred, and if there is none the system is asked.
    pub(super) fn checkout(&self) -> Option<Box<Connection<C, B>>> {
        let mut idle = self.idle.borrow_mut();
        let round = transport::round();
        loop {
            let known = idle.iter().rposition(|idle| idle.idle_round != round);
            let mut connection = match known {
                Some(at) => idle.remove(at),
                None => idle.pop()?,
            };
            let has_unread = |peek: &Peek| known.is_none() && peek.has_unread();
            if !connection.peek.as_ref().is_some_and(has_unread) && connection.driven.is_ready() {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection for the next exchange.
    pub(super) fn put(self: &Rc<Self>, mut connection: Box<Connection<C, B>>) {
        let max_idle = self.place.settings().max_idle;
        if max_idle == 0 || !connection.driven.is_open() {
            return;
        }
        let mut idle = self.idle.borrow_mut();
        if idle.len() >= max_idle {
            // The oldest is the likeliest to have been closed by the endpoint.
            idle.remove(0);
        }
        connection.idle_since = Instant::now();
        connection.idle_round = transport::round();
        idle.push(connection);
        self.place.has_warm(self);
    }
}

impl<C: 'static, B: 'static> Tend for Pool<C, B> {
    fn tend(&self, now: Instant, park: Duration) -> Option<Left> {
        let timeout = self.place.settings().idle_timeout;
        let mut idle = self.idle.borrow_mut();
        for idle in idle.iter_mut().filter(|idle| idle.idle_since + park <= now) {
            idle.driven.park();
        }
        idle.retain(|idle| !idle.driven.is_closed() && idle.idle_since + timeout > now);
        let warm = |idle: &Connection<C, B>| idle.driven.may_park();
        let due = |idle: &Connection<C, B>| match warm(idle) {
            true => idle.idle_since + park.min(timeout),
            false => idle.idle_since + timeout,
        };
        Some(Left {
            due: idle.iter().map(|idle| due(idle)).min()?,
            warm: idle.iter().any(|idle| warm(idle)),
        })
    }

    fn place(&self) -> &Place {
        &self.place
    }
}

impl<C, B, I> Pool<C, B>
where
    C: Service<(), Response = I, Error = Error> + Clone + 'static,
    I: Duplex + Send + 'static,
    B: Body<Data = Bytes, Error: Into<crate::BoxError>> + 'static,
{
    /// Dials, and remembers when that fails.
    pub(super) async fn connect(self: &Rc<Self>) -> Result<Box<Connection<C, B>>, Error> {
        match self.dial().await {
            Ok(connection) => {
                self.redial.succeeded();
                Ok(connection)
            }
            Err(error) => {
                // That this proxy has no descriptors left says nothing of the endpoint.
                if error.reason() != Reason::DescriptorLimit && self.redial.failed(&error) {
                    self.probe();
                }
                Err(error)
            }
        }
    }

    async fn dial(self: &Rc<Self>) -> Result<Box<Connection<C, B>>, Error> {
        let mut connect = self.connect.clone();
        poll_fn(|cx| connect.poll_ready(cx)).await?;
        let io = connect.call(()).await?;
        let peek = io.peek();
        let (sender, connection) = attach(io, Some(Open::new(self))).await.map_err(classify)?;
        Ok(Box::new(Connection {
            driven: Driven::new(sender, connection),
            pool: Rc::downgrade(self),
            reusable: true,
            idle_since: Instant::now(),
            idle_round: transport::round(),
            peek,
        }))
    }

    /// Tries again in the background until the endpoint accepts, so that no request pays for finding out.
    fn probe(self: &Rc<Self>) {
        if self.probing.replace(true) {
            return;
        }
        let pool = Rc::downgrade(self);
        tokio::task::spawn_local(async move {
            // The pool is not kept alive by its probe.
            while let Some(pool) = pool.upgrade() {
                let due = tokio::time::timeout(limits::PROBE_CHECK, pool.redial.due());
                if due.await.is_err() {
                    continue;
                }
                match pool.dial().await {
                    Ok(connection) => {
                        pool.probing.set(false);
                        pool.put(connection);
                        pool.redial.succeeded();
                        return;
                    }
                    Err(error) => pool.redial.failed(&error),
                };
            }
        });
    }
}

/// The connections of a client, for `/state`.
pub fn inspect_http1(open: usize, idle: usize, settings: &PoolSettings) -> serde_json::Value {
    serde_json::json!({
        "protocol": "HTTP/1",
        "open": open,
        "idle": idle,
        "max_idle": settings.max_idle,
    })
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
