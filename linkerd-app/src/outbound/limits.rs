//! Limits of a route's requests: its timeouts and retries, or those that a request asks for.

mod headers;
mod of_route;

use super::{
    retry::{Retry, RetryLayer, RetryRules, RouteRetries},
    timeouts::{TimedRoute, timeouts_layer},
};
use http::Response;
use linkerd_proxy_core::{
    Error,
    http::{HttpRequest, ResponseBody},
};
pub use of_route::Limits;
use std::{
    rc::Rc,
    task::{Context, Poll},
};
use tower::util::Either;
use tower_layer::Layer;
use tower_service::Service;

/// Applies timeouts and retries. Where the route allows it, a request's own headers (`l5d-timeout` and others) override those of
/// the route, and are removed.
#[derive(Clone, Debug)]
pub struct LimitsLayer {
    /// The timeouts and retries of the route.
    pub limits: Limits,
    /// Whether a request's headers may replace them.
    pub allows_headers: bool,
    /// The counters, budget and jitter of its retries.
    pub retries: Rc<RouteRetries>,
}

/// See [`LimitsLayer`].
#[derive(Clone, Debug)]
pub struct LimitedRoute<S> {
    inner: S,
    limited: Limited<S>,
    layer: LimitsLayer,
}

type Limited<S> = Either<Retry<S>, Either<TimedRoute<S>, S>>;

impl LimitsLayer {
    fn limit<S>(&self, limits: &Limits, inner: S) -> Limited<S> {
        let Limits { timeouts, retry } = limits;
        let Some(policy) = retry else {
            return Either::Right(timeouts_layer(*timeouts).layer(inner));
        };
        let rules = Rc::new(RetryRules::from(&**policy));
        Either::Left(RetryLayer::new(rules, *timeouts, &self.retries).layer(inner))
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
