//! Timeouts of a route.

use http::Response;
use linkerd_profiles::Timeouts;
use linkerd_proxy_core::{
    Error, Reason,
    http::{AttemptNotes, Deadline, HttpRequest, LastFrame, RequestBody, ResponseBody, Upload},
};
use pin_project_lite::pin_project;
use std::{
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep_until};
use tower_layer::Layer;
use tower_service::Service;

/// Ends requests and responses that take too long. A limit that passes before the headers of the response is an error; one
/// that passes later ends the body.
///
/// | limit | from | to |
/// |---|---|---|
/// | request | the request's arrival; waiting for an endpoint counts | the end of the response |
/// | response | the end of the request's body | the end of the response |
/// | idle | the last frame in either direction | the next one; bodies only |
///
/// - **Fails as** `RequestTimeout`, `ResponseTimeout`, `IdleTimeout`. What was sent to the endpoint is given up.
#[derive(Clone, Copy, Debug)]
pub struct TimeoutsLayer(Timeouts);

/// See [`TimeoutsLayer`].
#[derive(Clone, Debug)]
pub struct TimedRoute<S> {
    inner: S,
    timeouts: Timeouts,
}

impl TimeoutsLayer {
    /// Applies `timeouts`.
    pub fn new(timeouts: Timeouts) -> Self {
        Self(timeouts)
    }
}

impl<S> Layer<S> for TimeoutsLayer {
    type Service = TimedRoute<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let timeouts = self.0;
        TimedRoute { inner, timeouts }
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
        let attempts = request.context_mut().attempts.get_or_insert_default();
        let attempts = attempts.clone();
        let body = request.body_mut();
        let limits = Limits {
            request: self.timeouts.request.map(|limit| arrived + limit),
            response: self.timeouts.response,
            sent: RequestSent::of(body),
            idle: self.timeouts.idle.map(|limit| (LastFrame::now(), limit)),
        };
        if let Some(at) = limits.request {
            body.end_by(Deadline::new(at, Reason::RequestTimeout));
        }
        if let Some((last, limit)) = &limits.idle {
            body.observe(last, arrived);
            body.end_by(Deadline::idle(last, *limit, Reason::IdleTimeout));
        }
        TimedFuture {
            inner: self.inner.call(request),
            limits,
            attempts,
            sleep: None,
        }
    }
}

pin_project! {
    /// The future of [`TimedRoute`].
    pub struct TimedFuture<F> {
        #[pin]
        inner: F,
        limits: Limits,
        attempts: Rc<AttemptNotes>,
        // Runs as soon as the response is waited for.
        sleep: Option<Pin<Box<Sleep>>>,
    }
}

/// The end of a request, from which the time for its response runs.
pub(super) struct RequestSent {
    called: Instant,
    /// The request's body, if it has one.
    upload: Option<Rc<Upload>>,
}

impl RequestSent {
    /// Of a request with this body, which is sent now.
    pub(super) fn of(body: &RequestBody) -> Self {
        Self {
            called: Instant::now(),
            upload: body.upload(),
        }
    }

    /// When all of the request had been sent; `None` if that goes on.
    pub(super) fn at(&self) -> Option<Instant> {
        match &self.upload {
            Some(upload) => upload.ended(),
            None => Some(self.called),
        }
    }
}

/// The limits of one request.
struct Limits {
    request: Option<Instant>,
    response: Option<Duration>,
    sent: RequestSent,
    idle: Option<(Rc<LastFrame>, Duration)>,
}

impl Limits {
    /// The limit that has passed before the headers of the response, or the time to look again.
    ///
    /// An upload does not say when it ends. It cannot have ended so early that the limit has passed before the next look.
    fn check(&self, now: Instant) -> Result<Option<Instant>, Reason> {
        let response = self.response.map(|limit| (self.sent.at(), limit));
        if self.request.is_some_and(|at| at <= now) {
            return Err(Reason::RequestTimeout);
        }
        let response = match response {
            Some((Some(sent), limit)) if sent + limit <= now => {
                return Err(Reason::ResponseTimeout);
            }
            Some((sent, limit)) => Some(sent.unwrap_or(now) + limit),
            None => None,
        };
        Ok([self.request, response].into_iter().flatten().min())
    }

    /// The limits of a response's body.
    fn apply(&self, body: &mut ResponseBody) {
        if let Some(at) = self.request {
            body.end_by(Deadline::new(at, Reason::RequestTimeout));
        }
        if let Some(limit) = self.response {
            let sent = self.sent.at().unwrap_or_else(Instant::now);
            body.end_by(Deadline::new(sent + limit, Reason::ResponseTimeout));
        }
        if let Some((last, limit)) = &self.idle {
            last.passed();
            body.observe(last.clone(), self.sent.called);
            body.end_by(Deadline::idle(last, *limit, Reason::IdleTimeout));
        }
    }
}

impl<F> Future for TimedFuture<F>
where
    F: Future<Output = Result<Response<ResponseBody>, Error>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(mut result) = this.inner.poll(cx) {
            if let Ok(response) = &mut result {
                this.limits.apply(response.body_mut());
            }
            return Poll::Ready(result);
        }
        loop {
            let next = match this.limits.check(Instant::now()) {
                Ok(Some(next)) => next,
                Ok(None) => return Poll::Pending,
                Err(reason) => {
                    this.attempts.time_out();
                    return Poll::Ready(Err(reason.into()));
                }
            };
            let sleep = this
                .sleep
                .get_or_insert_with(|| Box::pin(sleep_until(next)));
            if sleep.deadline() != next && sleep.is_elapsed() {
                sleep.as_mut().reset(next);
            }
            ready!(sleep.as_mut().poll(cx));
        }
    }
}

#[cfg(test)]
mod tests;
