//! Counts a route's use of a backend: `outbound_{http,grpc}_route_backend_*`.

use super::status::{Status, StatusCounters};
use crate::metrics::RouteFamilies;
use http::Response;
use linkerd_proxy_core::{
    Error,
    http::{
        AttemptNotes, BodyEnd, HttpRequest, Now, ObserveResponse, ObservedResponse, ResponseBody,
    },
    metrics::{Counter, Histogram, LabelSet},
    stack::ObserveCall,
};
use std::{cell::Cell, rc::Rc};
use tokio::time::Instant;

/// Counts requests to a backend and their responses.
#[derive(Clone, Debug)]
pub struct BackendMetrics(Rc<BackendSeries>);

#[derive(Debug)]
struct BackendSeries {
    requests: Counter,
    duration: Histogram,
    frame_size: Histogram,
    statuses: StatusCounters,
}

impl BackendMetrics {
    /// Counts in series with these labels, as gRPC or as HTTP.
    pub fn new(families: &RouteFamilies, labels: LabelSet, grpc: bool) -> Self {
        Self(Rc::new(BackendSeries {
            requests: families.backend_requests.get(labels.clone()),
            duration: families.backend_duration.get(labels.clone()),
            frame_size: families.backend_frame_size.get(labels.clone()),
            statuses: StatusCounters::new(&families.backend_statuses, labels, grpc),
        }))
    }
}

impl ObserveCall<HttpRequest, Response<ResponseBody>> for BackendMetrics {
    type Call = BackendCall;

    fn begin(&self, request: &mut HttpRequest) -> BackendCall {
        self.0.requests.incr();
        let context = request.context();
        let attempts = context.attempts.clone();
        BackendCall {
            arrived: context.arrived,
            unanswered: Cell::new(attempts.map(|attempts| (attempts, self.0.clone()))),
        }
    }

    fn answered(&self, call: &BackendCall, response: &mut Response<ResponseBody>) {
        call.unanswered.take();
        response.body_mut().observe(self.0.clone(), call.arrived);
    }

    fn failed(&self, call: &BackendCall, error: &mut Error) {
        call.unanswered.take();
        self.0.statuses.count(Status::of_error(error));
    }
}

/// A request to a backend. A drop counts a failure if a limit of the route has ended the attempt.
pub struct BackendCall {
    arrived: Instant,
    /// The notes of a request without an answer, if a limit may end it.
    unanswered: Cell<Option<(Rc<AttemptNotes>, Rc<BackendSeries>)>>,
}

impl Drop for BackendCall {
    fn drop(&mut self) {
        if let Some((attempts, series)) = self.unanswered.take()
            && let Some(reason) = attempts.timed_out_by_policy()
        {
            series.statuses.count(Status::of_error(&reason.into()));
        }
    }
}

/// Counts a backend's responses.
impl ObserveResponse for BackendSeries {
    fn data(&self, _: &ObservedResponse<'_>, len: usize, _: &Now) {
        self.frame_size.observe(len as u64);
    }

    /// Measures the duration from the end of the request; zero if the response ended first.
    fn end(&self, exchange: &ObservedResponse<'_>, end: BodyEnd<'_>, now: &Now) {
        let since = exchange.request_ended();
        let duration = since.map(|since| now.since(since));
        self.duration.observe_duration(duration.unwrap_or_default());
        self.statuses.count(Status::of(exchange, end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{
        BelowStage, MockStage, TestMetrics, assert_readiness_passes, request, response,
    };
    use http_body_util::BodyExt;
    use linkerd_proxy_core::{ObserveLayer, Reason, metrics::Labels, stack::Observe};
    use std::time::Duration;
    use tower_layer::Layer;
    use tower_service::Service;

    type Stage = MockStage<HttpRequest, Response<ResponseBody>, Error>;
    type Below = BelowStage<HttpRequest, Response<ResponseBody>, Error>;

    const REQUESTS: &str = "outbound_http_route_backend_requests_total";
    const STATUSES: &str = "outbound_http_route_backend_response_statuses_total";

    fn stage() -> (TestMetrics, Observe<Stage, BackendMetrics>, Below) {
        let metrics = TestMetrics::new();
        let families = &metrics.families.outbound.http;
        let labels = Labels::new().with("backend_name", "b");
        let layer = ObserveLayer::new(BackendMetrics::new(families, labels.into(), false));
        let (mock, below) = Stage::new();
        (metrics, layer.layer(mock), below)
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_counts_at_once_and_its_response_when_its_body_has_ended() {
        let (metrics, mut stage, mut below) = stage();
        let answered = stage.call(request(""));
        assert_eq!(metrics.sum(REQUESTS, &["backend_name=\"b\""]), 1.0);
        let (_, respond) = below.next_request().await.unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
        respond.send_response(Ok(response("welcome")));
        let response = answered.await.unwrap();
        assert_eq!(metrics.sum(STATUSES, &[]), 0.0);
        response.into_body().collect().await.unwrap();
        assert_eq!(metrics.sum(STATUSES, &["http_status=\"200\""]), 1.0);
        let duration = "outbound_http_route_backend_response_duration_seconds_sum";
        assert_eq!(metrics.sum(duration, &[]), 1.0);
        let frames = "outbound_http_route_backend_response_frame_size_bytes_sum";
        assert_eq!(metrics.sum(frames, &[]), 7.0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_counts_by_its_reason_and_one_that_is_given_up_does_not() {
        let (metrics, mut stage, mut below) = stage();
        let answered = stage.call(request(""));
        let (_, respond) = below.next_request().await.unwrap();
        respond.send_response(Err(Reason::ConnectRefused.into()));
        assert!(answered.await.is_err());
        let refused = ["http_status=\"502\"", "error=\"\""];
        assert_eq!(metrics.sum(STATUSES, &refused), 1.0);
        drop(stage.call(request("")));
        assert_eq!(metrics.sum(REQUESTS, &[]), 2.0);
        assert_eq!(metrics.sum(STATUSES, &[]), 1.0);
    }

    #[tokio::test]
    async fn is_ready_when_the_stage_below_is() {
        let (_metrics, stage, mut below) = stage();
        assert_readiness_passes(stage, &mut below);
    }
}
