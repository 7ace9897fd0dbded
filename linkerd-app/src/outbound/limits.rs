//! Limits of a route's requests: its timeouts and retries, or those that a request asks for.

mod headers;

use super::{
    retry::{Retry, RetryLayer, RouteRetries},
    timeouts::{TimedRoute, TimeoutsLayer},
};
use http::Response;
use linkerd_profiles::{RetryPolicy, Timeouts};
use linkerd_proxy_core::{
    Error,
    http::{HttpRequest, ResponseBody},
};
use std::{
    rc::Rc,
    task::{Context, Poll},
};
use tower::util::Either;
use tower_layer::Layer;
use tower_service::Service;

/// Applies timeouts and retries. Where the route allows it, a request's own headers (`l5d-timeout` and others) come before
/// the route's, and are removed.
#[derive(Clone, Debug)]
pub struct LimitsLayer {
    /// Those of the route.
    pub limits: Limits,
    /// Whether a request may ask for others.
    pub allows_headers: bool,
    /// What its retries share.
    pub retries: Rc<RouteRetries>,
}

/// Timeouts and retries.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// The timeouts.
    pub timeouts: Timeouts,
    /// The retries.
    pub retry: Option<Rc<RetryPolicy>>,
}

/// See [`LimitsLayer`].
#[derive(Clone, Debug)]
pub struct LimitedRoute<S> {
    inner: S,
    limited: Limited<S>,
    layer: LimitsLayer,
}

/// The request's timeout is that of all attempts; the others are those of each.
type Limited<S> = TimedRoute<Either<Retry<TimedRoute<S>>, S>>;

impl LimitsLayer {
    fn limit<S>(&self, limits: &Limits, inner: S) -> Limited<S> {
        let Limits { timeouts, retry } = limits;
        let Some(policy) = retry else {
            return TimeoutsLayer::new(*timeouts).layer(Either::Right(inner));
        };
        let of_all = Timeouts {
            request: timeouts.request,
            ..Timeouts::default()
        };
        let of_each = Timeouts {
            request: None,
            ..*timeouts
        };
        let attempt = TimeoutsLayer::new(of_each).layer(inner);
        let retry = RetryLayer::new(policy.clone(), timeouts.request, &self.retries);
        TimeoutsLayer::new(of_all).layer(Either::Left(retry.layer(attempt)))
    }
}

impl<S: Clone> Layer<S> for LimitsLayer {
    type Service = LimitedRoute<S>;

    fn layer(&self, inner: S) -> Self::Service {
        LimitedRoute {
            limited: self.limit(&self.limits, inner.clone()),
            inner,
            layer: self.clone(),
        }
    }
}

impl<S> Service<HttpRequest> for LimitedRoute<S>
where
    S: Service<HttpRequest, Response = Response<ResponseBody>, Error = Error> + Clone + 'static,
{
    type Response = S::Response;
    type Error = Error;
    type Future = <Limited<S> as Service<HttpRequest>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: HttpRequest) -> Self::Future {
        let layer = &self.layer;
        let asked = layer
            .allows_headers
            .then(|| headers::take(request.headers_mut(), &layer.limits))
            .flatten();
        match asked {
            None => self.limited.call(request),
            Some(asked) => layer.limit(&asked, self.inner.clone()).call(request),
        }
    }
}
