//! The connections of one endpoint, kept for reuse.

use super::{exchange::Connection, socket::attach};
use crate::{
    Backoff, Error,
    http::{
        PoolSettings,
        client::{driven::Driven, failure::classify},
    },
    limits,
    redial::Redial,
};
use bytes::Bytes;
use http_body::Body;
use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    rc::{Rc, Weak},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::Instant,
};
use tower_service::Service;

/// Idle connections, and a way to new ones.
pub(super) struct Pool<C, B> {
    connect: C,
    settings: PoolSettings,
    pub(super) redial: Redial,
    /// The most recently used last: that one is the least likely to have been closed by the endpoint.
    #[expect(
        clippy::vec_box,
        reason = "an exchange holds its connection by this box"
    )]
    idle: RefCell<Vec<Box<Connection<C, B>>>>,
    open: Cell<usize>,
    reaping: Cell<bool>,
    probing: Cell<bool>,
}

impl<C, B> Pool<C, B> {
    pub(super) fn new(connect: C, settings: PoolSettings, backoff: Backoff) -> Self {
        Self {
            connect,
            settings,
            redial: Redial::new(backoff),
            idle: RefCell::default(),
            open: Cell::new(0),
            reaping: Cell::new(false),
            probing: Cell::new(false),
        }
    }

    pub(super) fn inspect(&self) -> serde_json::Value {
        inspect_http1(self.open.get(), self.idle.borrow().len(), &self.settings)
    }
}

impl<C: 'static, B: 'static> Pool<C, B> {
    /// Takes an idle connection that still lives. [`Pool::reap`] keeps out those that were idle for too long.
    pub(super) fn checkout(&self) -> Option<Box<Connection<C, B>>> {
        let mut idle = self.idle.borrow_mut();
        while let Some(mut last) = idle.pop() {
            if last.driven.is_ready() {
                return Some(last);
            }
        }
        None
    }

    /// Keeps a connection for the next exchange.
    pub(super) fn put(self: &Rc<Self>, mut connection: Box<Connection<C, B>>) {
        let mut idle = self.idle.borrow_mut();
        if self.settings.max_idle == 0 || !connection.driven.is_open() {
            return;
        }
        if idle.len() >= self.settings.max_idle {
            // The oldest is the likeliest to have been closed by the endpoint.
            idle.remove(0);
        }
        connection.idle_since = Instant::now();
        idle.push(connection);
        if !self.reaping.replace(true) {
            tokio::task::spawn_local(Self::reap(Rc::downgrade(self), self.settings));
        }
    }

    /// Parks connections that are idle, and closes those that were for too long, until none is left.
    async fn reap(pool: Weak<Self>, settings: PoolSettings) {
        let mut next = Instant::now() + settings.idle_timeout.min(limits::HTTP1_PARK);
        loop {
            tokio::time::sleep_until(next).await;
            let Some(pool) = pool.upgrade() else {
                return;
            };
            let now = Instant::now();
            let mut idle = pool.idle.borrow_mut();
            let expires = |idle: &Connection<C, B>| idle.idle_since + settings.idle_timeout;
            let parks = |idle: &Connection<C, B>| idle.idle_since + limits::HTTP1_PARK;
            for idle in idle.iter_mut().filter(|idle| parks(idle) <= now) {
                idle.driven.park();
            }
            idle.retain(|idle| !idle.driven.is_closed() && expires(idle) > now);
            let due = |idle: &Connection<C, B>| match idle.driven.may_park() {
                true => parks(idle).min(expires(idle)),
                false => expires(idle),
            };
            match idle.iter().map(|idle| due(idle)).min() {
                // Others may come before that, and are parked in time.
                Some(due) => next = due.min(now + limits::HTTP1_PARK),
                None => {
                    pool.reaping.set(false);
                    return;
                }
            }
        }
    }
}

impl<C, B, I> Pool<C, B>
where
    C: Service<(), Response = I, Error = Error> + Clone + 'static,
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
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
                if self.redial.failed(&error) {
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
        let (sender, connection) = attach(io, Some(Open::new(self))).await.map_err(classify)?;
        Ok(Box::new(Connection {
            driven: Driven::new(sender, connection),
            pool: Rc::downgrade(self),
            reusable: true,
            idle_since: Instant::now(),
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
