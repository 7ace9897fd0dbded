//! HTTP/1 connections of one endpoint, kept for reuse.

use super::{ClientBody, Fresh, body::Lease, failure::classify};
use crate::{
    Availability, Backoff, EndpointState, Error, Failed, Reason, http::PoolSettings, limits,
    redial::Redial,
};
use bytes::Bytes;
use futures::{FutureExt, future::LocalBoxFuture};
use http::{Request, Response};
use http_body::Body;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use std::{
    cell::{Cell, RefCell},
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
    idle: RefCell<Vec<Idle<B>>>,
    open: Cell<usize>,
    reaping: Cell<bool>,
    probing: Cell<bool>,
}

struct Idle<B> {
    sender: SendRequest<B>,
    since: Instant,
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
        let inner = &self.0;
        inspect_http1(inner.open.get(), inner.idle.borrow().len(), &inner.settings)
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

    fn call(&mut self, request: Request<B>) -> Self::Future {
        Box::pin(self.0.clone().send(request))
    }
}

impl<C, B, I> Inner<C, B>
where
    C: Service<(), Response = I, Error = Error> + Clone + 'static,
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    B: Body<Data = Bytes, Error: Into<crate::BoxError>> + 'static,
{
    async fn send(
        self: Rc<Self>,
        mut request: Request<B>,
    ) -> Result<Response<ClientBody>, Failed<Request<B>>> {
        let reusable = is_reusable(&request);
        let mut fresh = !reusable || request.extensions().get::<Fresh>().is_some();
        loop {
            let reused = if fresh { None } else { self.checkout() };
            let was_reused = reused.is_some();
            let mut sender = match reused {
                Some(sender) => sender,
                None => match self.clone().connect().await {
                    Ok(sender) => sender,
                    Err(error) => return Err(Failed::returned(error, request)),
                },
            };
            match sender.try_send_request(request).await {
                Ok(response) => {
                    let pool = if reusable {
                        Rc::downgrade(&self)
                    } else {
                        Weak::new()
                    };
                    let lease = Box::new(Checkout { sender, pool });
                    return Ok(response.map(|body| ClientBody::new(body, lease)));
                }
                Err(mut error) => match error.take_message() {
                    // The endpoint had closed it while it was idle, and nothing was sent: any request may try again.
                    Some(unsent) if was_reused => {
                        request = unsent;
                        fresh = self.idle.borrow().is_empty();
                    }
                    Some(unsent) => {
                        let error = unsent_error(error.into_error());
                        return Err(Failed::returned(error, unsent));
                    }
                    None => return Err(Failed::lost(classify(error.into_error()))),
                },
            }
        }
    }

    /// Takes an idle connection that still lives.
    fn checkout(&self) -> Option<SendRequest<B>> {
        let mut idle = self.idle.borrow_mut();
        let oldest = Instant::now().checked_sub(self.settings.idle_timeout);
        while let Some(last) = idle.pop() {
            let expired = oldest.is_some_and(|oldest| last.since < oldest);
            if expired {
                // All others were idle for longer.
                idle.clear();
            } else if last.sender.is_ready() {
                return Some(last.sender);
            }
        }
        None
    }

    /// Dials, and remembers when that fails.
    async fn connect(self: Rc<Self>) -> Result<SendRequest<B>, Error> {
        match self.dial().await {
            Ok(sender) => {
                self.redial.succeeded();
                Ok(sender)
            }
            Err(error) => {
                if self.redial.failed(&error) {
                    self.probe();
                }
                Err(error)
            }
        }
    }

    async fn dial(self: &Rc<Self>) -> Result<SendRequest<B>, Error> {
        let mut connect = self.connect.clone();
        std::future::poll_fn(|cx| connect.poll_ready(cx)).await?;
        let io = connect.call(()).await?;
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(limits::HTTP1_MAX_BUFFER)
            .max_headers(limits::HTTP1_MAX_HEADERS)
            .handshake(TokioIo::new(io))
            .await
            .map_err(classify)?;
        let open = Open::new(self);
        // Not an async block: it would hold the connection twice, and a proxy has thousands of idle ones.
        let served = connection.with_upgrades().map(move |ended| {
            drop(open);
            if let Err(error) = ended {
                tracing::debug!(%error, "endpoint connection ended");
            }
        });
        tokio::task::spawn_local(served);
        Ok(sender)
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
                    Ok(sender) => {
                        pool.probing.set(false);
                        pool.put(sender);
                        pool.redial.succeeded();
                        return;
                    }
                    Err(error) => pool.redial.failed(&error),
                };
            }
        });
    }

    fn put(self: &Rc<Self>, sender: SendRequest<B>) {
        let mut idle = self.idle.borrow_mut();
        if sender.is_closed() || idle.len() >= self.settings.max_idle {
            return;
        }
        let since = Instant::now();
        idle.push(Idle { sender, since });
        if !self.reaping.replace(true) {
            tokio::task::spawn_local(Self::reap(Rc::downgrade(self), self.settings));
        }
    }

    /// Closes connections that were idle for too long, until none is left.
    async fn reap(pool: Weak<Self>, settings: PoolSettings) {
        loop {
            tokio::time::sleep(settings.idle_timeout).await;
            let Some(pool) = pool.upgrade() else {
                return;
            };
            let mut idle = pool.idle.borrow_mut();
            let oldest = Instant::now().checked_sub(settings.idle_timeout);
            idle.retain(|idle| {
                !idle.sender.is_closed() && oldest.is_none_or(|oldest| idle.since > oldest)
            });
            if idle.is_empty() {
                pool.reaping.set(false);
                return;
            }
        }
    }
}

/// A connection that an exchange holds.
struct Checkout<C, B> {
    sender: SendRequest<B>,
    pool: Weak<Inner<C, B>>,
}

impl<C, B, I> Lease for Checkout<C, B>
where
    C: Service<(), Response = I, Error = Error> + Clone + 'static,
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    B: Body<Data = Bytes, Error: Into<crate::BoxError>> + 'static,
{
    fn complete(self: Box<Self>) {
        if let Some(pool) = self.pool.upgrade() {
            pool.put(self.sender);
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
