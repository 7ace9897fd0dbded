//! Outcomes of an endpoint's requests, for its circuit breaker.

use http::Response;
use linkerd_balance::breaker::{BreakerGate, BreakerPass, EndpointBreaker};
use linkerd_proxy_core::{
    Rejected,
    http::{AttemptNotes, HttpRequest, ResponseBody},
};
use pin_project_lite::pin_project;
use std::{
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

/// Passes requests to an endpoint, and their outcomes to its circuit breaker.
///
/// - **Sits** above the endpoint's metrics, at balancers whose policy has a breaker.
/// - **Waits for**, **fails as**: the endpoint. The balancer reads an ejection from the endpoint's status.
#[derive(Clone, Debug)]
pub struct BreakerLayer(Rc<EndpointBreaker>);

/// See [`BreakerLayer`].
#[derive(Debug)]
pub struct BreakerService<S> {
    inner: S,
    gate: BreakerGate,
}

impl BreakerLayer {
    /// A layer that feeds this breaker. It makes one service only: the endpoint leaves its balancer when the service is dropped.
    pub fn new(breaker: Rc<EndpointBreaker>) -> Self {
        Self(breaker)
    }
}

impl<S> Layer<S> for BreakerLayer {
    type Service = BreakerService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let gate = BreakerGate::new(self.0.clone());
        BreakerService { inner, gate }
    }
}

impl<S> Service<HttpRequest> for BreakerService<S>
where
    S: Service<HttpRequest, Response = Response<ResponseBody>, Error = Rejected<HttpRequest>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BreakerFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: HttpRequest) -> Self::Future {
        BreakerFuture {
            pass: Unused {
                pass: Some(self.gate.admit()),
                attempts: request.context().attempts.clone(),
            },
            inner: self.inner.call(request),
        }
    }
}

pin_project! {
    /// The future of [`BreakerService`].
    pub struct BreakerFuture<F> {
        #[pin]
        inner: F,
        pass: Unused,
    }
}

/// The pass of a request without an outcome yet. A drop gives the pass back, or counts a failure if a timeout of the route has
/// passed.
struct Unused {
    pass: Option<Rc<BreakerPass>>,
    attempts: Option<Rc<AttemptNotes>>,
}

impl Drop for Unused {
    fn drop(&mut self) {
        let Some(pass) = &self.pass else { return };
        let attempts = self.attempts.as_ref();
        match attempts.and_then(|attempts| attempts.timed_out()) {
            Some(reason) => pass.failed(&reason.into()),
            None => pass.abandon(),
        }
    }
}

impl<F> Future for BreakerFuture<F>
where
    F: Future<Output = Result<Response<ResponseBody>, Rejected<HttpRequest>>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut polled = this.inner.poll(cx);
        match &mut polled {
            Poll::Pending => {}
            Poll::Ready(Ok(response)) => {
                if let Some(pass) = this.pass.pass.take() {
                    let observer = pass.observer(response.status(), response.headers());
                    // The breaker measures no time: reading the clock here keeps the future small.
                    response.body_mut().observe(observer, Instant::now());
                }
            }
            Poll::Ready(Err(rejected)) => {
                if let Some(pass) = this.pass.pass.take() {
                    pass.failed(&rejected.error);
                }
            }
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{BelowStage, MockStage, assert_readiness_passes, request};
    use http::StatusCode;
    use linkerd_balance::breaker::BreakerGroup;
    use linkerd_proxy_core::Reason;
    use linkerd_proxy_core::{
        Backoff, EndpointStatus,
        endpoint::{Capacity, FailureAccrual},
    };
    use rand::{SeedableRng, rngs::SmallRng};
    use std::time::Duration;

    type Stage = MockStage<HttpRequest, Response<ResponseBody>, Rejected<HttpRequest>>;
    type Below = BelowStage<HttpRequest, Response<ResponseBody>, Rejected<HttpRequest>>;

    const SECOND: Duration = Duration::from_secs(1);

    /// An endpoint that two failures in a row eject, for a second.
    fn endpoint() -> (BreakerService<Stage>, Below, EndpointStatus) {
        let rules = FailureAccrual {
            max_consecutive: std::num::NonZeroU32::new(2),
            success_rate: None,
            limits_count: true,
            backoff: Backoff::new(SECOND, 60 * SECOND, 0.0).unwrap(),
            respects_retry_after: true,
            min_ready_endpoints: 0,
        };
        let group = BreakerGroup::new("test", rules, SmallRng::seed_from_u64(1));
        let status = EndpointStatus::new(Capacity::OnDemand);
        let breaker = group.breaker("endpoint", status.clone());
        let (mock, below) = Stage::new();
        (BreakerLayer::new(breaker).layer(mock), below, status)
    }

    fn answer(status: u16, headers: &[(&'static str, &'static str)]) -> Response<ResponseBody> {
        let mut answer = Response::builder().status(status);
        for (name, value) in headers {
            answer = answer.header(*name, *value);
        }
        ResponseBody::full(answer.body("").unwrap())
    }

    /// Sends a request, and answers it as the endpoint.
    async fn exchange(
        endpoint: &mut BreakerService<Stage>,
        below: &mut Below,
        answer: Result<Response<ResponseBody>, Rejected<HttpRequest>>,
    ) {
        let response = endpoint.call(request(""));
        below.next_request().await.unwrap().1.send_response(answer);
        drop(response.await);
    }

    #[tokio::test(start_paused = true)]
    async fn an_endpoint_that_a_limit_of_the_route_gave_up_has_failed() {
        for (has_timed_out, is_ejected) in [(false, false), (true, true)] {
            let (mut endpoint, mut below, status) = endpoint();
            for _ in 0..2 {
                let mut request = request("");
                let attempts = Rc::new(AttemptNotes::default());
                request.context_mut().attempts = Some(attempts.clone());
                let response = endpoint.call(request);
                let _request = below.next_request().await.unwrap();
                if has_timed_out {
                    attempts.time_out(Reason::RequestTimeout);
                }
                drop(response);
            }
            assert_eq!(status.is_ejected(), is_ejected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn failures_eject_the_endpoint_and_a_probe_brings_it_back() {
        let (mut endpoint, mut below, status) = endpoint();
        for answer in [answer(500, &[]), answer(502, &[])] {
            assert!(!status.is_ejected());
            exchange(&mut endpoint, &mut below, Ok(answer)).await;
        }
        assert!(status.is_ejected());
        tokio::time::advance(SECOND).await;
        exchange(&mut endpoint, &mut below, Ok(answer(404, &[]))).await;
        assert_eq!(status.state().name(), "ready");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_connection_counts_and_a_refused_one_does_not() {
        let (mut endpoint, mut below, status) = endpoint();
        for _ in 0..3 {
            let refused = Rejected::returned(Reason::ConnectRefused, request(""));
            exchange(&mut endpoint, &mut below, Err(refused)).await;
            let broken = Rejected::lost(Reason::BrokenBody);
            exchange(&mut endpoint, &mut below, Err(broken)).await;
        }
        assert!(!status.is_ejected());
        for _ in 0..2 {
            let lost = Rejected::lost(Reason::ConnectionLost);
            exchange(&mut endpoint, &mut below, Err(lost)).await;
        }
        assert!(status.is_ejected());
    }

    #[tokio::test(start_paused = true)]
    async fn the_endpoints_hint_is_the_length_of_the_ejection() {
        let (mut endpoint, mut below, status) = endpoint();
        for _ in 0..2 {
            let answer = answer(503, &[("retry-after", "7")]);
            exchange(&mut endpoint, &mut below, Ok(answer)).await;
        }
        let left = status.state().retry_in(Instant::now());
        assert_eq!(left, Some(7 * SECOND));
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_whose_client_goes_away_leaves_its_place() {
        let (mut endpoint, mut below, status) = endpoint();
        for _ in 0..2 {
            exchange(&mut endpoint, &mut below, Ok(answer(500, &[]))).await;
        }
        tokio::time::advance(SECOND).await;
        let probe = endpoint.call(request(""));
        assert_eq!(status.state().name(), "probing");
        drop(probe);
        assert_eq!(status.state().name(), "ready");
    }

    #[tokio::test(start_paused = true)]
    async fn a_grpc_failure_is_one_whatever_its_status() {
        let (mut endpoint, mut below, status) = endpoint();
        for _ in 0..2 {
            let response = endpoint.call(request(""));
            let mut answer = ResponseBody::full(
                Response::builder()
                    .header("grpc-status", "14")
                    .body("late")
                    .unwrap(),
            );
            answer.body_mut().answers_grpc();
            below
                .next_request()
                .await
                .unwrap()
                .1
                .send_response(Ok(answer));
            let response = response.await.unwrap();
            assert_eq!(response.status(), StatusCode::OK);
            assert!(!status.is_ejected(), "it has not ended");
            drop(response);
        }
        assert!(status.is_ejected());
    }

    #[tokio::test]
    async fn is_ready_when_the_endpoint_is() {
        let (endpoint, mut below, _) = endpoint();
        assert_readiness_passes::<_, HttpRequest, _, _>(endpoint, &mut below);
    }
}
