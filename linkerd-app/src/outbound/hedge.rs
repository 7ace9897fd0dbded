//! Hedging: a request that takes longer than others of its route is sent once more.

mod race;
mod route;

use super::retry::is_shed;
use crate::metrics::HedgeSkipped;
use futures::{future::LocalBoxFuture, poll};
use http::Response;
use linkerd_proxy_core::{
    Error,
    http::{AttemptNotes, HttpRequest, RequestCopy, ResponseBody, is_idempotent},
};
use race::{Winner, before, race};
pub use route::{HedgeBudget, HedgedRoute, HedgedRoutes};
use std::{
    pin::pin,
    rc::Rc,
    task::{Context, Poll},
};
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

/// Sends an idempotent request (RFC 9110, section 9.2.2) once more when it has no response head after a quantile of the
/// latencies of its route.
///
/// - **Sits** below retries and filters: each attempt may have a hedge, which passes the choice of a backend anew.
/// - **Prefers** another endpoint than that of the first attempt.
/// - **Answers** with the first response head, and cancels the other attempt. A failed attempt is ignored while the other one
///   goes on.
/// - **Bounds**: one hedge for an attempt, within the retry budget; bytes of the body that are kept. A body that is still
///   being read is never sent again.
/// - **Fails as** the attempt that ends last.
/// - **Metrics**: `outbound_{http,grpc}_route_hedge_*`.
#[derive(Clone, Debug)]
pub struct HedgeLayer(Rc<HedgedRoute>);

/// See [`HedgeLayer`]. Its future is boxed: hedging is optional, and must not enlarge the futures of other requests.
#[derive(Clone, Debug)]
pub struct Hedge<S> {
    inner: S,
    route: Rc<HedgedRoute>,
}

impl HedgeLayer {
    /// Hedges the requests of a route.
    pub fn new(route: Rc<HedgedRoute>) -> Self {
        Self(route)
    }
}

impl<S> Layer<S> for HedgeLayer {
    type Service = Hedge<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let route = self.0.clone();
        Hedge { inner, route }
    }
}

impl<S> Service<HttpRequest> for Hedge<S>
where
    S: Service<HttpRequest, Response = Response<ResponseBody>, Error = Error> + Clone + 'static,
{
    type Response = S::Response;
    type Error = Error;
    type Future = LocalBoxFuture<'static, Result<S::Response, Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: HttpRequest) -> Self::Future {
        let called = Instant::now();
        let plan = self.plan(&mut request, called);
        let first = self.inner.call(request);
        let mut hedge = self.clone();
        Box::pin(async move {
            let result = match plan {
                None => first.await,
                Some(plan) => hedge.exchange(first, plan).await,
            };
            if result.is_ok() {
                hedge.route.answered(called, Instant::now());
            }
            result
        })
    }
}

/// A hedge to be sent at a time, unless the first attempt ends before.
struct Plan {
    at: Instant,
    /// `None`: the body is too large, or the request can be sent once only.
    copy: Option<RequestCopy>,
    first: Rc<AttemptNotes>,
}

impl<S> Hedge<S>
where
    S: Service<HttpRequest, Response = Response<ResponseBody>, Error = Error>,
{
    fn plan(&self, request: &mut HttpRequest, called: Instant) -> Option<Plan> {
        if !is_idempotent(request.method()) {
            return None;
        }
        let delay = self.route.delay(called)?;
        let first = request.context_mut().attempts.get_or_insert_default();
        Some(Plan {
            at: called + delay,
            first: first.clone(),
            copy: request.replayable(self.route.max_bytes()),
        })
    }

    /// Waits for the first attempt, and sends the hedge when it is due.
    async fn exchange(&mut self, first: S::Future, plan: Plan) -> Result<S::Response, Error> {
        let Self { inner, route } = self;
        let mut first = pin!(first);
        if let Some(result) = before(plan.at, first.as_mut()).await {
            return result;
        }
        let counts = route.counts();
        let request = match route.hedge(plan.copy, Instant::now()) {
            Ok(request) => again(request, &plan.first),
            Err(obstacle) => {
                counts.skipped(obstacle);
                return first.await;
            }
        };
        let mut second = pin!(inner.call(request));
        let polled = poll!(second.as_mut());
        if let Poll::Ready(Err(error)) = &polled
            && is_shed(error)
        {
            counts.skipped(HedgeSkipped::NoBackend);
            return first.await;
        }
        counts.sent();
        let (result, winner) = match polled {
            Poll::Ready(Ok(response)) => (Ok(response), Winner::Second),
            Poll::Ready(Err(_)) => (first.await, Winner::First),
            Poll::Pending => race(first, second).await,
        };
        if winner == Winner::Second && result.is_ok() {
            counts.won();
        }
        result
    }
}

/// The request of the hedge: sent now, to another endpoint than the first attempt.
fn again(mut request: HttpRequest, first: &AttemptNotes) -> HttpRequest {
    let now = Instant::now();
    let context = request.context_mut();
    (context.arrived, context.attempted) = (now, now);
    context.attempts = Some(Rc::new(first.another()));
    request
}

#[cfg(test)]
mod tests;
