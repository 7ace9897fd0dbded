//! Lets requests in by the routes of the port.

use crate::inbound::policy::{Admission, RoutePermit};
use http::Response;
use linkerd_proxy_core::{
    Error, Refusable,
    http::{HttpRequest, ResponseBody},
};
use pin_project_lite::pin_project;
use std::{
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};
use tokio::time::Instant;
use tower_service::Service;

/// Lets the requests of a connection in by the routes of the port, and counts them.
///
/// - **Waits for** nothing.
/// - **Fails as** [`Admission`] does.
/// - **Metrics**: `inbound_{http,grpc}_*` of routes.
pub struct RoutePolicy<S> {
    admission: Admission,
    inner: S,
}

impl<S> RoutePolicy<S> {
    /// Passes requests that are let in on to `inner`.
    pub fn new(admission: Admission, inner: S) -> Self {
        Self { admission, inner }
    }
}

impl<S> Service<HttpRequest> for RoutePolicy<S>
where
    S: Service<HttpRequest, Response = Response<ResponseBody>, Error = Error>,
{
    type Response = Response<ResponseBody>;
    type Error = Error;
    type Future = RoutePolicyFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: HttpRequest) -> Self::Future {
        match self.admission.admit(&mut request) {
            Ok(permit) => RoutePolicyFuture {
                counted: Some((permit.route.begin(&mut request), permit)),
                inner: Refusable::called(self.inner.call(request)),
            },
            Err(error) => RoutePolicyFuture {
                counted: None,
                inner: Refusable::refused(error),
            },
        }
    }
}

pin_project! {
    /// The future of [`RoutePolicy`].
    pub struct RoutePolicyFuture<F> {
        #[pin]
        inner: Refusable<F, Error>,
        // The arrival of a request that was let in, and its series.
        counted: Option<(Instant, Rc<RoutePermit>)>,
    }
}

impl<F> Future for RoutePolicyFuture<F>
where
    F: Future<Output = Result<Response<ResponseBody>, Error>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut polled = this.inner.poll(cx);
        if let (Poll::Ready(result), Some((arrived, permit))) = (&mut polled, this.counted) {
            match result {
                Ok(response) => permit.route.answered(*arrived, response),
                Err(error) => permit.route.failed(*arrived, error),
            }
        }
        polled
    }
}
