//! Requests to one endpoint over HTTP/1.

mod binding;
mod exchange;
mod pool;
mod pools;
pub(super) mod socket;

use crate::{
    Backoff, EndpointStatus, Error, Reason, Rejected,
    http::{HttpRequest, ResponseBody},
    transport::Duplex,
};
use bytes::Bytes;
use exchange::{Exchanged, is_reusable};
use futures::future::LocalBoxFuture;
use http::Response;
use http_body::Body;
use pin_project_lite::pin_project;
use pool::Pool;
pub use pools::Http1Pools;
use std::{
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};
use tower_service::Service;

/// Sends requests to one endpoint over HTTP/1. Copies of a client share the connections.
///
/// - **Waits for** a connection, at most for the connect timeout of `C`.
/// - **Fails as** the failure of `C`, with the request; or `ConnectionLost`, `InvalidResponse`.
/// - **Bounds**: idle connections, in number and in time. While the endpoint refuses connections the client is not
///   ready, and one task tries to reconnect.
pub struct Http1Client<C, B>(Rc<Pool<C, B>>);

impl<C, B> Clone for Http1Client<C, B> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<C: 'static, B: 'static> Http1Client<C, B> {
    /// A client without connections; its pool is one of `pools`. It writes `status`.
    pub fn new(connect: C, pools: &Http1Pools, backoff: Backoff, status: EndpointStatus) -> Self {
        Self(Pool::new(connect, pools, backoff, status))
    }
}

impl<C, B> Http1Client<C, B> {
    /// The endpoint's status.
    pub fn status(&self) -> &EndpointStatus {
        self.0.reconnect.status()
    }
}

impl<C, B, I> Service<HttpRequest<B>> for Http1Client<C, B>
where
    C: Service<(), Response = I, Error = Error> + Clone + 'static,
    I: Duplex + Send + 'static,
    B: Body<Data = Bytes, Error: Into<crate::BoxError>> + 'static,
{
    type Response = Response<ResponseBody>;
    type Error = Rejected<HttpRequest<B>>;
    type Future = LocalBoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        let status = self.status();
        if status.is_down() {
            status.register(cx);
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    /// Gives the request to an idle connection, if there is one, before the call returns.
    fn call(&mut self, request: HttpRequest<B>) -> Self::Future {
        let pool = &self.0;
        // A returned request takes a new connection: other idle ones are as old as the one that was lost.
        let fresh = !is_reusable(&request) || request.context().returns.any();
        let idle = if fresh { None } else { pool.checkout(&request) };
        match idle {
            Some(connection) => Box::pin(Reuse {
                first: Some(connection.exchange(request)),
                pool: pool.clone(),
                rest: None,
            }),
            None => Box::pin(send(pool.clone(), request)),
        }
    }
}

/// An exchange over a new connection.
async fn send<C, B, I>(
    pool: Rc<Pool<C, B>>,
    request: HttpRequest<B>,
) -> Result<Response<ResponseBody>, Rejected<HttpRequest<B>>>
where
    C: Service<(), Response = I, Error = Error> + Clone + 'static,
    I: Duplex + Send + 'static,
    B: Body<Data = Bytes, Error: Into<crate::BoxError>> + 'static,
{
    request.context().begin_connect();
    let connection = match pool.connect().await {
        Ok(connection) => connection,
        Err(error) => {
            request.context().end_connect();
            // Without a descriptor no other endpoint could be dialled either.
            return Err(match error.reason() {
                Reason::DescriptorLimit => Rejected::lost(error),
                _ => Rejected::returned(error, request),
            });
        }
    };
    request.context().end_connect();
    let sent = connection.exchange(request).await;
    sent.map_err(|rejected| match rejected.request {
        // The new connection did not take the request.
        Some(unsent) => {
            let detail = format!("closed before the request was sent: {}", rejected.error);
            let error = Error::new(Reason::ConnectFailed).detail(detail);
            Rejected::returned(error.source(rejected.error), unsent)
        }
        None => rejected,
    })
}

pin_project! {
    /// An exchange over a connection that was idle.
    struct Reuse<C, B, F> {
        #[pin]
        first: Option<F>,
        pool: Rc<Pool<C, B>>,
        // A request that the first connection did not take.
        rest: Option<LocalBoxFuture<'static, Result<Response<ResponseBody>, Rejected<HttpRequest<B>>>>>,
    }
}

impl<C, B, I, F> Future for Reuse<C, B, F>
where
    C: Service<(), Response = I, Error = Error> + Clone + 'static,
    I: Duplex + Send + 'static,
    B: Body<Data = Bytes, Error: Into<crate::BoxError>> + 'static,
    F: Future<Output = Exchanged<B>>,
{
    type Output = Result<Response<ResponseBody>, Rejected<HttpRequest<B>>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let Some(first) = this.first.as_mut().as_pin_mut() {
            match ready!(first.poll(cx)) {
                Ok(response) => return Poll::Ready(Ok(response)),
                Err(rejected) => {
                    *this.rest = Some(Box::pin(elsewhere(this.pool.clone(), rejected)));
                }
            }
            this.first.set(None);
        }
        let rest = this.rest.as_mut().expect("there is a first or a rest");
        rest.as_mut().poll(cx)
    }
}

/// Tries again after the endpoint closed an idle connection. If nothing was sent, any request may be retried.
async fn elsewhere<C, B, I>(
    pool: Rc<Pool<C, B>>,
    mut rejected: Rejected<HttpRequest<B>>,
) -> Result<Response<ResponseBody>, Rejected<HttpRequest<B>>>
where
    C: Service<(), Response = I, Error = Error> + Clone + 'static,
    I: Duplex + Send + 'static,
    B: Body<Data = Bytes, Error: Into<crate::BoxError>> + 'static,
{
    loop {
        let Some(unsent) = rejected.request else {
            return Err(rejected);
        };
        let Some(connection) = pool.checkout(&unsent) else {
            return send(pool, unsent).await;
        };
        match connection.exchange(unsent).await {
            Ok(response) => return Ok(response),
            Err(next) => rejected = next,
        }
    }
}

#[cfg(test)]
mod tests;
