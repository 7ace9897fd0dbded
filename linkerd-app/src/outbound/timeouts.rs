//! Timeouts of a route.

use http::Response;
use http_body::Body;
use linkerd_profiles::Timeouts;
use linkerd_proxy_core::{
    Error, Reason,
    http::{AttemptNotes, Deadline, HttpRequest, LastFrame, ResponseBody, TimerPool, Upload},
};
use pin_project_lite::pin_project;
use std::{
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::Instant;
use tower::{
    layer::util::Identity,
    util::{Either, option_layer},
};
use tower_layer::Layer;
use tower_service::Service;

/// Ends requests and responses that take too long. A limit that passes before the headers of the response is an error; a later
/// one ends the body. One timer serves all limits of a request; it starts when the response has to be waited for.
///
/// | limit | from | to |
/// |---|---|---|
/// | request | the request's arrival; waiting for an endpoint counts | the end of the response |
/// | response | the end of the request's body | the end of the response; the body alone, while an attempt has a limit for its headers |
/// | idle | the last frame in either direction | the next one; bodies only |
///
/// - **Fails as** `RequestTimeout`, `ResponseTimeout`, `IdleTimeout`. The attempt at the endpoint is cancelled. If the request
///   still waits for an endpoint, the error says why none is ready.
#[derive(Clone, Copy, Debug)]
pub struct TimeoutsLayer(Timeouts);

/// See [`TimeoutsLayer`].
#[derive(Clone, Debug)]
pub struct TimedRoute<S> {
    inner: S,
    timeouts: Timeouts,
    timers: TimerPool,
}

/// The layer of a route's timeouts; nothing if it has none.
pub fn timeouts_layer(timeouts: Timeouts) -> Either<TimeoutsLayer, Identity> {
    option_layer((!timeouts.is_none()).then_some(TimeoutsLayer(timeouts)))
}

impl<S> Layer<S> for TimeoutsLayer {
    type Service = TimedRoute<S>;

    fn layer(&self, inner: S) -> Self::Service {
        TimedRoute {
            inner,
            timeouts: self.0,
            timers: TimerPool::default(),
        }
    }
}

impl<S> Service<HttpRequest> for TimedRoute<S>
where
    S: Service<HttpRequest, Response = Response<ResponseBody>, Error = Error>,
{
    type Response = S::Response;
    type Error = Error;
    type Future = TimedFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: HttpRequest) -> Self::Future {
        let arrived = request.context().arrived;
        let end = self.timeouts.request.map(|limit| arrived + limit);
        let limits = RequestLimits::apply(&mut request, &self.timeouts, end, None, &self.timers);
        TimedFuture::new(self.inner.call(request), limits)
    }
}

/// The limits of one attempt to send a request: those of its route, and the limit for the headers of its response, which passes
/// without ending the attempt. See [`TimedFuture::poll_headers`].
pub(super) struct RequestLimits {
    /// The end of the request's timeout.
    end: Option<Instant>,
    response: Option<Duration>,
    headers: Option<Duration>,
    idle: Option<(LastFrame, Duration)>,
    called: Instant,
    /// The request's body, if it has one.
    upload: Option<Rc<Upload>>,
    timers: TimerPool,
    /// Notes of the request's attempts, if a limit may end this attempt.
    attempts: Option<Rc<AttemptNotes>>,
}

impl RequestLimits {
    /// The limits of a request that is sent now; sets those of its body. `end` is the end of the request timeout, `headers` the
    /// time from the end of the request to the headers of its response.
    pub(super) fn apply(
        request: &mut HttpRequest,
        timeouts: &Timeouts,
        end: Option<Instant>,
        headers: Option<Duration>,
        timers: &TimerPool,
    ) -> Self {
        let called = request.context().arrived;
        let upload = request.body().upload();
        let has_body = !request.body().is_end_stream();
        let idle = timeouts.idle.map(|limit| match has_body {
            false => (LastFrame::of_response(), limit),
            true => (LastFrame::of_both(), limit),
        });
        if has_body && (end.is_some() || idle.is_some()) {
            let mut deadline = Deadline::default();
            if let Some(at) = end {
                deadline.end_at(at, Reason::RequestTimeout);
            }
            if let Some((last, limit)) = &idle {
                deadline.end_idle(last.clone(), *limit, Reason::IdleTimeout);
            }
            request.body_mut().end_by(deadline);
        }
        let is_limited = end.is_some() || timeouts.response.is_some() || headers.is_some();
        let attempts = &mut request.context_mut().attempts;
        Self {
            end,
            response: timeouts.response,
            headers,
            idle,
            called,
            upload,
            timers: timers.clone(),
            attempts: is_limited.then(|| attempts.get_or_insert_default().clone()),
        }
    }

    /// The end of the request's timeout.
    pub(super) fn end(&self) -> Option<Instant> {
        self.end
    }

    /// Notes that a limit has passed, and that the attempt is cancelled. Returns its error.
    pub(super) fn time_out(&self, reason: Reason) -> Error {
        let Some(attempts) = &self.attempts else {
            return reason.into();
        };
        attempts.time_out(reason);
        attempts.explain(reason.into())
    }

    /// The first limit to pass before the headers of the response.
    ///
    /// An upload does not signal its end. While it runs, its end is not before `now`: a limit is counted from `now`, and checked
    /// again when that time has come, so that none is missed.
    fn nearest(&self, now: Instant) -> Option<(Instant, Reason)> {
        let end = self.end.map(|at| (at, Reason::RequestTimeout));
        // As with the incumbent, the limit for the headers takes the place of the response's, which then counts for the body.
        let (limit, reason) = match (self.headers, self.response) {
            (Some(limit), _) => (limit, Reason::ResponseHeadersTimeout),
            (None, Some(limit)) => (limit, Reason::ResponseTimeout),
            (None, None) => return end,
        };
        let at = self.sent().unwrap_or(now) + limit;
        match end {
            Some((end, _)) if end <= at => Some((end, Reason::RequestTimeout)),
            _ => Some((at, reason)),
        }
    }

    /// The time at which the request had been sent in full; `None` while it is being sent.
    fn sent(&self) -> Option<Instant> {
        match &self.upload {
            Some(upload) => upload.ended(),
            None => Some(self.called),
        }
    }

    /// Sets the limits of a response's body. `timer` has waited for the response until now, and is reused.
    fn limit_response(&mut self, timer: Option<Deadline>, body: &mut ResponseBody) {
        if body.is_end_stream() || !self.are_for_bodies() {
            return;
        }
        let mut deadline = timer.unwrap_or_else(|| self.timers.deadline());
        if let Some(at) = self.end {
            deadline.end_at(at, Reason::RequestTimeout);
        }
        if let Some(limit) = self.response {
            let at = self.sent().unwrap_or_else(Instant::now) + limit;
            match self.headers.is_some() && at <= Instant::now() {
                true => deadline.end_at_wait(Reason::ResponseTimeout),
                false => deadline.end_at(at, Reason::ResponseTimeout),
            }
        }
        if let Some((last, limit)) = self.idle.take() {
            last.passed();
            deadline.end_idle(last, limit, Reason::IdleTimeout);
        }
        body.end_by(deadline);
    }

    fn are_for_bodies(&self) -> bool {
        self.end.is_some() || self.response.is_some() || self.idle.is_some()
    }
}

pin_project! {
    /// The future of [`TimedRoute`].
    pub struct TimedFuture<F> {
        #[pin]
        inner: F,
        limits: RequestLimits,
        // Created at the first wait for the response; then passed to the body.
        timer: Option<Deadline>,
        // The earliest time at which a limit may pass.
        next: Option<Instant>,
    }
}

impl<F> TimedFuture<F> {
    /// A request that has been given to `inner`.
    pub(super) fn new(inner: F, limits: RequestLimits) -> Self {
        let next = limits.nearest(limits.called).map(|(at, _)| at);
        Self {
            inner,
            limits,
            timer: None,
            next,
        }
    }

    /// The limits.
    pub(super) fn limits(&self) -> &RequestLimits {
        &self.limits
    }
}

impl<F> TimedFuture<F>
where
    F: Future<Output = Result<Response<ResponseBody>, Error>>,
{
    /// Polls for the response. `None`: the limit for its headers has passed, and is removed; the wait goes on if it is polled
    /// again.
    pub(super) fn poll_headers(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<F::Output>> {
        let this = self.project();
        if let Poll::Ready(mut result) = this.inner.poll(cx) {
            if let Ok(response) = &mut result {
                let timer = this.timer.take();
                this.limits.limit_response(timer, response.body_mut());
            }
            return Poll::Ready(Some(result));
        }
        while let Some(at) = *this.next {
            let timer = this
                .timer
                .get_or_insert_with(|| this.limits.timers.deadline());
            ready!(timer.poll_at(at, cx));
            let now = Instant::now();
            let nearest = this.limits.nearest(now);
            *this.next = nearest.map(|(at, _)| at);
            match nearest.filter(|(at, _)| *at <= now) {
                None => {}
                Some((_, Reason::ResponseHeadersTimeout)) => {
                    this.limits.headers = None;
                    *this.next = this.limits.nearest(now).map(|(at, _)| at);
                    return Poll::Ready(None);
                }
                Some((_, reason)) => {
                    return Poll::Ready(Some(Err(this.limits.time_out(reason))));
                }
            }
        }
        Poll::Pending
    }
}

impl<F> Future for TimedFuture<F>
where
    F: Future<Output = Result<Response<ResponseBody>, Error>>,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            if let Some(result) = ready!(self.as_mut().poll_headers(cx)) {
                return Poll::Ready(result);
            }
        }
    }
}

#[cfg(test)]
mod tests;
