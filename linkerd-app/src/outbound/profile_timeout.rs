//! The timeout of a profile's route.

use http::Response;
use linkerd_proxy_core::{
    Error, Reason,
    http::{AttemptNotes, HttpRequest, ResponseBody},
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

/// Ends requests whose response headers take too long. Waiting for an endpoint and retries count, a body does not.
///
/// - **Fails as** `ProfileTimeout`. The attempt at the endpoint is cancelled. If the request still waits for an endpoint, the
///   error says why none is ready.
#[derive(Clone, Copy, Debug)]
pub struct ProfileTimeoutLayer(Duration);

/// See [`ProfileTimeoutLayer`].
#[derive(Clone, Debug)]
pub struct ProfileTimeout<S> {
    inner: S,
    limit: Duration,
}

impl ProfileTimeoutLayer {
    /// Limits the time from the arrival of a request to the headers of its response.
    pub fn new(limit: Duration) -> Self {
        Self(limit)
    }
}

impl<S> Layer<S> for ProfileTimeoutLayer {
    type Service = ProfileTimeout<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let limit = self.0;
        ProfileTimeout { inner, limit }
    }
}

impl<S> Service<HttpRequest> for ProfileTimeout<S>
where
    S: Service<HttpRequest, Response = Response<ResponseBody>, Error = Error>,
{
    type Response = S::Response;
    type Error = Error;
    type Future = ProfileTimeoutFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: HttpRequest) -> Self::Future {
        let attempts = request.context_mut().attempts.get_or_insert_default();
        ProfileTimeoutFuture {
            attempts: attempts.clone(),
            due: request.context().arrived + self.limit,
            inner: self.inner.call(request),
            limit: self.limit,
            sleep: None,
        }
    }
}

pin_project! {
    /// The future of [`ProfileTimeout`].
    pub struct ProfileTimeoutFuture<F> {
        #[pin]
        inner: F,
        due: Instant,
        attempts: Rc<AttemptNotes>,
        limit: Duration,
        // Created at the first wait for the response.
        sleep: Option<Pin<Box<Sleep>>>,
    }
}

impl<F> Future for ProfileTimeoutFuture<F>
where
    F: Future<Output = Result<Response<ResponseBody>, Error>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let polled = this.inner.poll(cx);
        if polled.is_ready() {
            return polled;
        }
        let sleep = this
            .sleep
            .get_or_insert_with(|| Box::pin(sleep_until(*this.due)));
        ready!(sleep.as_mut().poll(cx));
        this.attempts.time_out(Reason::ProfileTimeout);
        let text = format!("{} after {:?}", Reason::ProfileTimeout, this.limit);
        let error = Error::new(Reason::ProfileTimeout).detail(text);
        Poll::Ready(Err(this.attempts.explain(error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{BelowStage, MockStage, assert_readiness_passes, request, response};
    use http_body_util::BodyExt;

    type Stage = MockStage<HttpRequest, Response<ResponseBody>, Error>;
    type Below = BelowStage<HttpRequest, Response<ResponseBody>, Error>;

    const SEC: Duration = Duration::from_secs(1);

    fn stage(limit: Duration) -> (ProfileTimeout<Stage>, Below) {
        let (mock, below) = Stage::new();
        (ProfileTimeoutLayer::new(limit).layer(mock), below)
    }

    #[tokio::test(start_paused = true)]
    async fn the_limit_runs_from_the_arrival_and_is_named() {
        let (mut stage, mut below) = stage(3 * SEC);
        let waiting = request("");
        tokio::time::advance(SEC).await;
        let start = Instant::now();
        let answered = stage.call(waiting);
        let _request = below.next_request().await.unwrap();
        let error = answered.await.unwrap_err();
        assert_eq!(error.reason(), Reason::ProfileTimeout);
        assert_eq!(error.to_string(), "HTTP response timeout after 3s");
        assert_eq!(start.elapsed(), 2 * SEC);
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_within_the_limit_passes_and_its_body_has_none() {
        let (mut stage, mut below) = stage(SEC);
        let answered = stage.call(request(""));
        let (_, respond) = below.next_request().await.unwrap();
        respond.send_response(Ok(response("welcome")));
        let response = answered.await.unwrap();
        tokio::time::advance(10 * SEC).await;
        let body = response.into_body().collect().await.unwrap();
        assert_eq!(body.to_bytes(), "welcome");
    }

    #[tokio::test]
    async fn is_ready_when_the_stage_below_is() {
        let (stage, mut below) = stage(SEC);
        assert_readiness_passes(stage, &mut below);
    }
}
