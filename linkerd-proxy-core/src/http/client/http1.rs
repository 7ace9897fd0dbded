//! HTTP/1 connections of one endpoint, kept for reuse.

use super::{
    ClientBody, Fresh,
    body::{Lease, PolledFrame},
    driven::Driven,
    failure::classify,
};
use crate::{
    Availability, Backoff, EndpointState, Error, Failed, Reason, http::PoolSettings, limits,
    redial::Redial,
};
use bytes::Bytes;
use futures::{FutureExt, future::LocalBoxFuture};
use http::{Request, Response};
use http_body::Body;
use hyper::{
    body::Incoming,
    client::conn::{TrySendError, http1},
    upgrade::OnUpgrade,
};
use hyper_util::rt::TokioIo;
use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    pin::pin,
    rc::{Rc, Weak},
    task::{Context, Poll},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::Instant,
};
use tower_service::Service;

/// Sends requests to one endpoint over HTTP/1. Its copies share the connections.
///
/// - **Waits for** a connection, at most for the connect timeout of `C`.
/// - **Fails as** what `C` fails as, with the request; or `ConnectionLost`, `InvalidResponse`.
/// - **Bounds**: idle connections, in number and in time. While the endpoint refuses connections the client is not
///   ready, and one task tries again.
pub struct Http1Client<C, B>(Rc<Inner<C, B>>);

struct Inner<C, B> {
    connect: C,
    settings: PoolSettings,
    redial: Redial,
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

/// A connection. It returns to its pool when an exchange is complete.
struct Connection<C, B> {
    driven: Driven<B>,
    pool: Weak<Inner<C, B>>,
    /// Whether it serves another exchange after this one.
    reusable: bool,
    idle_since: Instant,
}

impl<C, B> Clone for Http1Client<C, B> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<C, B> Http1Client<C, B> {
    /// A client without connections.
    pub fn new(connect: C, settings: PoolSettings, backoff: Backoff) -> Self {
        Self(Rc::new(Inner {
            connect,
            settings,
            redial: Redial::new(backoff),
            idle: RefCell::default(),
            open: Cell::new(0),
            reaping: Cell::new(false),
            probing: Cell::new(false),
        }))
    }

    /// Waits until the endpoint is thought to accept connections, for a request that was not balanced by this client's
    /// readiness. Any number of requests may wait so; of those that poll readiness only the last is woken.
    pub async fn up(&self) {
        self.0.redial.up().await;
    }
}

impl<C, B> Availability for Http1Client<C, B> {
    fn state(&self) -> EndpointState {
        self.0.redial.state().unwrap_or(EndpointState::Ready)
    }

    fn wanted(&self) {
        self.0.redial.wanted();
    }

    fn inspect(&self) -> serde_json::Value {
        serde_json::json!({
            "protocol": "HTTP/1",
            "open": self.0.open.get(),
            "idle": self.0.idle.borrow().len(),
            "max_idle": self.0.settings.max_idle,
        })
    }
}

impl<C, B, I> Service<Request<B>> for Http1Client<C, B>
where
    C: Service<(), Response = I, Error = Error> + Clone + 'static,
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    B: Body<Data = Bytes, Error: Into<crate::BoxError>> + 'static,
{
    type Response = Response<ClientBody>;
    type Error = Failed<Request<B>>;
    type Future = LocalBoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        if self.0.redial.is_down() {
            self.0.redial.register(cx);
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    /// Gives the request to an idle connection, if there is one, before this returns: it is not carried in a future.
    fn call(&mut self, request: Request<B>) -> Self::Future {
        let inner = self.0.clone();
        let fresh = !is_reusable(&request) || request.extensions().get::<Fresh>().is_some();
        let idle = if fresh { None } else { inner.checkout() };
        match idle {
            Some(connection) => Box::pin(inner.reuse(connection.exchange(request))),
            None => Box::pin(inner.send(request)),
        }
    }
}

type Sent<B> = Result<Response<ClientBody>, TrySendError<Request<B>>>;

impl<C, B, I> Inner<C, B>
where
    C: Service<(), Response = I, Error = Error> + Clone + 'static,
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    B: Body<Data = Bytes, Error: Into<crate::BoxError>> + 'static,
{
    /// An exchange over a connection that was idle. If the endpoint had closed it meanwhile, nothing was sent: any request
    /// may try again.
    async fn reuse(
        self: Rc<Self>,
        sent: impl Future<Output = Sent<B>>,
    ) -> Result<Response<ClientBody>, Failed<Request<B>>> {
        let mut sent = sent.await;
        loop {
            let mut error = match sent {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            let Some(unsent) = error.take_message() else {
                return Err(Failed::lost(classify(error.into_error())));
            };
            sent = match self.checkout() {
                // Boxed, as this is rare and would make the future of each request larger.
                Some(connection) => connection.exchange(unsent).boxed_local().await,
                None => return self.send(unsent).boxed_local().await,
            };
        }
    }

    /// An exchange over a new connection.
    async fn send(
        self: Rc<Self>,
        request: Request<B>,
    ) -> Result<Response<ClientBody>, Failed<Request<B>>> {
        let connection = match self.clone().connect().await {
            Ok(connection) => connection,
            Err(error) => return Err(Failed::returned(error, request)),
        };
        connection
            .exchange(request)
            .await
            .map_err(|mut error| match error.take_message() {
                Some(unsent) => {
                    let error = unsent_error(error.into_error());
                    Failed::returned(error, unsent)
                }
                None => Failed::lost(classify(error.into_error())),
            })
    }

    /// Takes an idle connection that still lives. [`Inner::reap`] keeps out those that were idle for too long.
    fn checkout(&self) -> Option<Box<Connection<C, B>>> {
        let mut idle = self.idle.borrow_mut();
        while let Some(mut last) = idle.pop() {
            if last.driven.is_ready() {
                return Some(last);
            }
        }
        None
    }

    /// Dials, and remembers when that fails.
    async fn connect(self: Rc<Self>) -> Result<Box<Connection<C, B>>, Error> {
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
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(limits::HTTP1_MAX_BUFFER)
            .max_headers(limits::HTTP1_MAX_HEADERS)
            .handshake(TokioIo::new(io))
            .await
            .map_err(classify)?;
        let open = Open::new(self);
        let connection = async move {
            let _open = open;
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, "endpoint connection ended");
            }
        };
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

    fn put(self: &Rc<Self>, mut connection: Box<Connection<C, B>>) {
        let mut idle = self.idle.borrow_mut();
        if connection.driven.is_closed() || idle.len() >= self.settings.max_idle {
            return;
        }
        connection.idle_since = Instant::now();
        idle.push(connection);
        if !self.reaping.replace(true) {
            tokio::task::spawn_local(Self::reap(Rc::downgrade(self), self.settings));
        }
    }

    /// Closes connections as soon as they were idle for too long, until none is left.
    async fn reap(pool: Weak<Self>, settings: PoolSettings) {
        let mut next = Instant::now() + settings.idle_timeout;
        loop {
            tokio::time::sleep_until(next).await;
            let Some(pool) = pool.upgrade() else {
                return;
            };
            let now = Instant::now();
            let mut idle = pool.idle.borrow_mut();
            let expires = |idle: &Connection<C, B>| idle.idle_since + settings.idle_timeout;
            idle.retain(|idle| !idle.driven.is_closed() && expires(idle) > now);
            // The first is the one that has been idle for the longest time.
            match idle.first() {
                Some(oldest) => next = expires(oldest),
                None => {
                    pool.reaping.set(false);
                    return;
                }
            }
        }
    }
}

impl<C, B, I> Connection<C, B>
where
    C: Service<(), Response = I, Error = Error> + Clone + 'static,
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    B: Body<Data = Bytes, Error: Into<crate::BoxError>> + 'static,
{
    /// Sends a request. The connection has it when this returns.
    fn exchange(
        mut self: Box<Self>,
        request: Request<B>,
    ) -> impl Future<Output = Sent<B>> + use<C, B, I> {
        self.reusable = is_reusable(&request);
        let uploads = !request.body().is_end_stream();
        let upgrades = request.extensions().get::<OnUpgrade>().is_some();
        let sent = self.driven.sender.try_send_request(request);
        async move {
            let mut sent = pin!(sent);
            let response = poll_fn(|cx| self.driven.drive(cx, |cx| sent.as_mut().poll(cx))).await?;
            if uploads || upgrades {
                self.driven.detach();
            }
            Ok(response.map(|body| ClientBody::new(body, self)))
        }
    }
}

impl<C, B, I> Lease for Connection<C, B>
where
    C: Service<(), Response = I, Error = Error> + Clone + 'static,
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    B: Body<Data = Bytes, Error: Into<crate::BoxError>> + 'static,
{
    fn poll_frame(&mut self, incoming: &mut Incoming, cx: &mut Context<'_>) -> PolledFrame {
        self.driven.poll_frame(incoming, cx)
    }

    fn complete(self: Box<Self>) {
        if self.reusable
            && let Some(pool) = self.pool.upgrade()
        {
            pool.put(self);
        }
    }
}

/// Counts a connection as long as it is open.
struct Open<C, B>(Weak<Inner<C, B>>);

impl<C, B> Open<C, B> {
    fn new(pool: &Rc<Inner<C, B>>) -> Self {
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

/// HTTP/1.0 connections end with their response, as the incumbent has it.
fn is_reusable<B>(request: &Request<B>) -> bool {
    request.version() != http::Version::HTTP_10
}

/// A new connection that did not take the request.
fn unsent_error(error: hyper::Error) -> Error {
    Error::new(Reason::ConnectFailed)
        .detail(error.to_string())
        .source(error)
}
