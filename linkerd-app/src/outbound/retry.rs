//! Retries of a route.

mod attempt;
mod conditions;
mod rules;

use super::{
    retry_budgets::SharedBudget,
    timeouts::{RequestLimits, TimedFuture},
};
use crate::metrics::{CountRetries, RetrySkipped};
use attempt::{Attempt, AttemptEvent, Attempted};
use conditions::AttemptResult;
use futures::future::LocalBoxFuture;
use http::Response;
use linkerd_profiles::Timeouts;
use linkerd_proxy_core::{
    Error, Reason,
    http::{HttpRequest, RequestCopy, ResponseBody, TimerPool},
};
use pin_project_lite::pin_project;
use rand::rngs::SmallRng;
pub use rules::RetryRules;
use std::{
    cell::RefCell,
    future::poll_fn,
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
/// - **Gives up** an attempt when its own timeout passes, if another one can be made. Otherwise the attempt goes on without it.
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
            is_skipped: false,
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
            let exchange = this.exchange.as_mut().expect("it has one first attempt");
            let end = ready!(exchange.poll_attempt(first, cx));
            this.first.set(None);
            let mut exchange = this.exchange.take().expect("it has one first attempt");
            let (result, pause) = exchange.conclude(end);
            match pause {
                None => return Poll::Ready(result),
                Some(pause) => *this.rest = Some(Box::pin(exchange.retry(result, pause))),
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
    /// Whether the present attempt is counted as one after which there was no retry. It may be late, and fail later.
    is_skipped: bool,
    /// The end of the request's timeout.
    end: Option<Instant>,
    /// The time after which no attempt begins.
    latest: Option<Instant>,
}

/// The end of an attempt.
enum AttemptEnd {
    Ended(Attempted),
    /// Its own timeout has passed, and another one follows after this pause.
    GivenUp(Error, Duration),
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

    /// Gives a request to the stage below. The last attempt that the policy allows has no limit for its headers.
    fn attempt(&mut self, mut request: HttpRequest) -> Attempt<S::Future>
    where
        S: Service<HttpRequest>,
    {
        self.is_skipped = false;
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

    /// Polls an attempt. When the limit for its headers passes and no other attempt can be made, it goes on.
    fn poll_attempt<F>(
        &mut self,
        mut attempt: Pin<&mut Attempt<F>>,
        cx: &mut Context<'_>,
    ) -> Poll<AttemptEnd>
    where
        F: Future<Output = Result<Response<ResponseBody>, Error>>,
    {
        loop {
            match ready!(attempt.as_mut().poll_event(cx)) {
                AttemptEvent::Ended(attempted) => {
                    return Poll::Ready(AttemptEnd::Ended(attempted));
                }
                AttemptEvent::Late => {
                    if let Some(pause) = self.pause(AttemptResult::Retryable) {
                        return Poll::Ready(AttemptEnd::GivenUp(attempt.give_up(), pause));
                    }
                }
            }
        }
    }

    /// The result of an attempt, and the pause before the next one, if there is to be one.
    fn conclude(
        &mut self,
        end: AttemptEnd,
    ) -> (Result<Response<ResponseBody>, Error>, Option<Duration>) {
        match end {
            AttemptEnd::Ended((result, outcome)) => (result, self.pause(outcome)),
            AttemptEnd::GivenUp(error, pause) => (Err(error), Some(pause)),
        }
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
                self.skip(RetrySkipped::NotAllowed);
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
                self.skip(obstacle);
                None
            }
        }
    }

    /// Counts the present attempt as one after which there was no retry, once.
    fn skip(&mut self, why: RetrySkipped) {
        if !std::mem::replace(&mut self.is_skipped, true) {
            self.retry.layer.route.counts.skipped(why);
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
            let polled = poll_fn(|cx| Poll::Ready(self.poll_attempt(attempt.as_mut(), cx))).await;
            let counts = &self.retry.layer.route.counts;
            if let Poll::Ready(AttemptEnd::Ended((Err(error), _))) = &polled
                && is_shed(error)
            {
                counts.overflowed();
                return last;
            }
            counts.retried();
            if let Ok(response) = last {
                response.into_body().discard();
            }
            let end = match polled {
                Poll::Ready(end) => end,
                Poll::Pending => poll_fn(|cx| self.poll_attempt(attempt.as_mut(), cx)).await,
            };
            match self.conclude(end) {
                (result, None) => return result,
                (result, Some(next)) => (last, pause) = (result, next),
            }
        }
    }
}

/// Whether no backend took the request.
pub fn is_shed(error: &Error) -> bool {
    matches!(
        error.reason(),
        Reason::Unavailable(_) | Reason::QueueFull | Reason::InvalidBackend | Reason::NoBackend
    )
}

#[cfg(test)]
mod tests;
