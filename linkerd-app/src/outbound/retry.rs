//! Retries of a route.

mod attempt;
mod conditions;

use super::{
    retry_budgets::SharedBudget,
    timeouts::{RequestLimits, TimedFuture},
};
use crate::metrics::{CountRetries, RetrySkipped};
use attempt::Attempt;
use conditions::{AttemptResult, RetriedResults};
use futures::future::LocalBoxFuture;
use http::Response;
use linkerd_profiles::{RetryPolicy, Timeouts};
use linkerd_proxy_core::{
    Backoff, Error, Reason,
    http::{HttpRequest, RequestCopy, ResponseBody, ResponseClasses, TimerPool},
};
use pin_project_lite::pin_project;
use rand::rngs::SmallRng;
use std::{
    cell::RefCell,
    pin::{Pin, pin},
    rc::Rc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

/// Sends a request again when its response is one that the policy retries.
///
/// - **Retries** answers by status and gRPC code, streams that the endpoint refused, backends that fail fast, and attempts
///   whose own timeout has passed.
/// - **Bounds**: retries of a request, bytes of its body that are kept, the request's timeout, and the budget of the route.
///   A request that does not fit is sent once.
/// - **Prefers** an endpoint that has not just failed the request.
/// - **Never** sends a body again while an endpoint still reads it.
/// - **Fails as** the last attempt.
/// - **Metrics**: `outbound_{http,grpc}_route_retry_*`.
#[derive(Clone, Debug)]
pub struct RetryLayer {
    rules: Rc<RetryRules>,
    timeouts: Timeouts,
    /// The time from the request's arrival after which no attempt begins.
    latest: Option<Duration>,
    route: Rc<RouteRetries>,
}

/// The conditions and limits of retries.
#[derive(Debug)]
pub struct RetryRules {
    results: RetriedResults,
    max_retries: u16,
    max_request_bytes: usize,
    /// From the end of the request to the headers of its response, for each attempt but the last.
    timeout: Option<Duration>,
    backoff: Option<Backoff>,
}

/// Counters, budget, jitter and timers of a route's retries, shared by all of its requests.
#[derive(Debug)]
pub struct RouteRetries {
    counts: Box<dyn CountRetries>,
    budget: SharedBudget,
    rng: RefCell<SmallRng>,
    timers: TimerPool,
}

/// See [`RetryLayer`].
#[derive(Clone, Debug)]
pub struct Retry<S> {
    inner: S,
    layer: RetryLayer,
}

impl RouteRetries {
    /// The retries of a route, within a budget. `rng` draws the jitter of pauses.
    pub fn new(counts: impl CountRetries + 'static, budget: &SharedBudget, rng: SmallRng) -> Self {
        Self {
            counts: Box::new(counts),
            budget: budget.clone(),
            rng: RefCell::new(rng),
            timers: TimerPool::default(),
        }
    }
}

impl From<&RetryPolicy> for RetryRules {
    fn from(policy: &RetryPolicy) -> Self {
        Self {
            results: RetriedResults::Policy(policy.conditions.clone()),
            max_retries: policy.max_retries,
            max_request_bytes: policy.max_request_bytes,
            timeout: policy.timeout,
            backoff: policy.backoff,
        }
    }
}

impl RetryRules {
    /// The rules of a profile's route: failures by its classes, as often as the budget allows.
    pub fn of_profile(classes: Option<Rc<ResponseClasses>>) -> Self {
        Self {
            results: RetriedResults::Profile(classes),
            max_retries: u16::MAX,
            max_request_bytes: PROFILE_BYTES,
            timeout: None,
            backoff: None,
        }
    }
}

impl RetryLayer {
    /// Retries by `rules`. The request timeout covers all attempts, the other timeouts each attempt.
    pub fn new(rules: Rc<RetryRules>, timeouts: Timeouts, route: &Rc<RouteRetries>) -> Self {
        Self {
            rules,
            timeouts,
            latest: timeouts.request,
            route: route.clone(),
        }
    }

    /// Begins no attempt when `limit` has passed since the request's arrival: a layer above ends the request then.
    pub fn begin_within(mut self, limit: Option<Duration>) -> Self {
        self.latest = limit;
        self
    }
}

impl<S> Layer<S> for RetryLayer {
    type Service = Retry<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let layer = self.clone();
        Retry { inner, layer }
    }
}

impl<S> Service<HttpRequest> for Retry<S>
where
    S: Service<HttpRequest, Response = Response<ResponseBody>, Error = Error> + Clone + 'static,
{
    type Response = S::Response;
    type Error = Error;
    type Future = RetryFuture<S>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: HttpRequest) -> Self::Future {
        self.layer.route.counts.begun();
        let arrived = request.context().arrived;
        let mut exchange = Exchange {
            end: self.layer.timeouts.request.map(|limit| arrived + limit),
            latest: self.layer.latest.map(|limit| arrived + limit),
            retry: self.clone(),
            copy: None,
            retries: 0,
        };
        exchange.keep(&mut request);
        RetryFuture {
            first: Some(exchange.attempt(request)),
            exchange: Some(exchange),
            rest: None,
        }
    }
}

pin_project! {
    /// The future of [`Retry`].
    pub struct RetryFuture<S: Service<HttpRequest>> {
        #[pin]
        first: Option<Attempt<S::Future>>,
        exchange: Option<Exchange<S>>,
        // Boxed: few requests are retried, and it would enlarge the futures of all.
        rest: Option<LocalBoxFuture<'static, Result<Response<ResponseBody>, Error>>>,
    }
}

impl<S> Future for RetryFuture<S>
where
    S: Service<HttpRequest, Response = Response<ResponseBody>, Error = Error> + Clone + 'static,
{
    type Output = Result<Response<ResponseBody>, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let Some(first) = this.first.as_mut().as_pin_mut() {
            let attempted = ready!(first.poll(cx));
            this.first.set(None);
            let mut exchange = this.exchange.take().expect("it has one first attempt");
            match exchange.pause(attempted.1) {
                None => return Poll::Ready(attempted.0),
                Some(pause) => *this.rest = Some(Box::pin(exchange.retry(attempted.0, pause))),
            }
        }
        let rest = this
            .rest
            .as_mut()
            .expect("there is a first attempt or a rest");
        rest.as_mut().poll(cx)
    }
}

/// A request that may be sent again.
struct Exchange<S> {
    retry: Retry<S>,
    /// The request, for the next attempt. `None`: its body is too large, or the request cannot be copied.
    copy: Option<RequestCopy>,
    /// The retries that were made.
    retries: u16,
    /// The end of the request's timeout.
    end: Option<Instant>,
    /// The time after which no attempt begins.
    latest: Option<Instant>,
}

impl<S> Exchange<S> {
    /// Keeps a copy of a request, if it may be sent again after this attempt.
    fn keep(&mut self, request: &mut HttpRequest) {
        let rules = &self.retry.layer.rules;
        if self.retries < rules.max_retries {
            request.context_mut().attempts.get_or_insert_default();
            self.copy = request.replayable(rules.max_request_bytes);
        }
    }

    /// Gives a request to the stage below. The last possible attempt has no limit for its headers.
    fn attempt(&mut self, mut request: HttpRequest) -> Attempt<S::Future>
    where
        S: Service<HttpRequest>,
    {
        let Retry { inner, layer } = &mut self.retry;
        let may_be_retried = self.copy.is_some();
        let headers_limit = layer.rules.timeout.filter(|_| may_be_retried);
        let by_code = layer.rules.results.depend_on_code(request.headers());
        // After a retry, the outcome of the request is counted.
        let peeks = by_code && (may_be_retried || self.retries > 0);
        let RouteRetries { timers, .. } = &*layer.route;
        let limits = RequestLimits::apply(
            &mut request,
            &layer.timeouts,
            self.end,
            headers_limit,
            timers,
        );
        Attempt::new(TimedFuture::new(inner.call(request), limits), peeks)
    }

    /// The pause before the next attempt, if there is to be one.
    fn pause(&mut self, result: AttemptResult) -> Option<Duration> {
        let RetryLayer { rules, route, .. } = &self.retry.layer;
        let counts = &route.counts;
        if result == AttemptResult::Expired {
            return None;
        }
        if !rules.results.contain(result) {
            route.budget.borrow_mut().deposit(Instant::now());
            if result.is_failure() {
                counts.skipped(RetrySkipped::NotAllowed);
            } else if self.retries > 0 {
                counts.saved();
            }
            return None;
        }
        if self.retries >= rules.max_retries {
            counts.limited();
            return None;
        }
        let backoff = rules.backoff.as_ref();
        let pause = backoff.map_or(Duration::ZERO, |backoff| {
            backoff.delay(self.retries.into(), &mut *route.rng.borrow_mut())
        });
        match self.obstacle(pause) {
            None => Some(pause),
            Some(obstacle) => {
                counts.skipped(obstacle);
                None
            }
        }
    }

    /// The obstacle to another attempt after `pause`. `None`: a retry was withdrawn from the budget.
    fn obstacle(&self, pause: Duration) -> Option<RetrySkipped> {
        let Some(copy) = &self.copy else {
            return Some(RetrySkipped::NotReplayable);
        };
        let body = copy.body();
        let is_late = |at| Instant::now() + pause >= at;
        if body.upload().is_some_and(|upload| upload.is_broken()) {
            Some(RetrySkipped::NotReplayable)
        } else if !body.is_whole() {
            Some(RetrySkipped::BodyTooLarge)
        } else if !body.is_released() {
            Some(RetrySkipped::RequestUnfinished)
        } else if self.latest.is_some_and(is_late) {
            Some(RetrySkipped::Deadline)
        } else {
            let mut budget = self.retry.layer.route.budget.borrow_mut();
            (!budget.withdraw(Instant::now())).then_some(RetrySkipped::Budget)
        }
    }
}

impl<S> Exchange<S>
where
    S: Service<HttpRequest, Response = Response<ResponseBody>, Error = Error>,
{
    /// Retries until the request succeeds or may not be sent again. If no backend takes a retry, the last result is the answer.
    async fn retry(
        mut self,
        mut last: Result<Response<ResponseBody>, Error>,
        mut pause: Duration,
    ) -> Result<Response<ResponseBody>, Error> {
        loop {
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            let Some(copy) = self.copy.take() else {
                return last;
            };
            let mut request = copy.into_request();
            let now = Instant::now();
            let context = request.context_mut();
            (context.arrived, context.attempted) = (now, now);
            if let Some(upload) = request.body().upload() {
                upload.begin_again();
            }
            self.retries += 1;
            self.keep(&mut request);
            let mut attempt = pin!(self.attempt(request));
            let layer = &self.retry.layer;
            let (result, outcome) = match futures::poll!(attempt.as_mut()) {
                Poll::Ready((Err(error), _)) if is_shed(&error) => {
                    layer.route.counts.overflowed();
                    return last;
                }
                polled => {
                    layer.route.counts.retried();
                    if let Ok(response) = last {
                        response.into_body().discard();
                    }
                    match polled {
                        Poll::Ready(attempted) => attempted,
                        Poll::Pending => attempt.await,
                    }
                }
            };
            match self.pause(outcome) {
                None => return result,
                Some(next) => (last, pause) = (result, next),
            }
        }
    }
}

/// Whether no backend took the request.
pub fn is_shed(error: &Error) -> bool {
    matches!(
        error.reason(),
        Reason::Unavailable(_) | Reason::QueueFull | Reason::InvalidBackend
    )
}

/// The bytes of a body that are kept for a profile's retries, as with the incumbent.
const PROFILE_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests;
