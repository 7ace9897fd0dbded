//! Counts the requests of a route: `outbound_{http,grpc}_route_*`.

use super::status::{Status, StatusCounters};
use crate::metrics::RouteFamilies;
use http::Response;
use linkerd_proxy_core::{
    Error,
    http::{
        BodyEnd, HttpRequest, Now, ObserveRequest, ObserveResponse, ObservedRequest,
        ObservedResponse, ResponseBody,
    },
    metrics::{Histogram, LabelSet},
    stack::ObserveCall,
};
use std::rc::Rc;
use tokio::time::Instant;

/// Counts requests of a route and their responses.
#[derive(Clone, Debug)]
pub struct RouteMetrics(Rc<RouteSeries>);

#[derive(Debug)]
struct RouteSeries {
    duration: Histogram,
    frame_size: Histogram,
    statuses: StatusCounters,
}

impl RouteMetrics {
    /// Counts in series with these labels, as gRPC or as HTTP.
    pub fn new(families: &RouteFamilies, labels: LabelSet, grpc: bool) -> Self {
        Self(Rc::new(RouteSeries {
            duration: families.request_duration.get(labels.clone()),
            frame_size: families.request_frame_size.get(labels.clone()),
            statuses: StatusCounters::new(&families.request_statuses, labels, grpc),
        }))
    }
}

impl ObserveCall<HttpRequest, Response<ResponseBody>> for RouteMetrics {
    /// The request's arrival.
    type Call = Instant;

    fn begin(&self, request: &mut HttpRequest) -> Instant {
        let arrived = request.context().arrived;
        request.body_mut().observe(&self.0, arrived);
        arrived
    }

    fn answered(&self, arrived: &Instant, response: &mut Response<ResponseBody>) {
        response.body_mut().observe(self.0.clone(), *arrived);
    }

    fn failed(&self, arrived: &Instant, error: &mut Error) {
        self.0.statuses.count(Status::of_error(error));
        self.0.duration.observe_duration(arrived.elapsed());
    }
}

/// Counts a route's requests.
impl ObserveRequest for RouteSeries {
    fn data(&self, _: &ObservedRequest, len: usize, _: &Now) {
        self.frame_size.observe(len as u64);
    }
}

/// Counts a route's responses.
impl ObserveResponse for RouteSeries {
    fn end(&self, exchange: &ObservedResponse<'_>, end: BodyEnd<'_>, now: &Now) {
        self.duration.observe_duration(now.since(exchange.start));
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

    const STATUSES: &str = "outbound_http_route_request_statuses_total";
    const COUNT: &str = "outbound_http_route_request_duration_seconds_count";
    const SUM: &str = "outbound_http_route_request_duration_seconds_sum";

    fn stage() -> (TestMetrics, Observe<Stage, RouteMetrics>, Below) {
        let metrics = TestMetrics::new();
        let families = &metrics.families.outbound.http;
        let labels = Labels::new().with("route_name", "r");
        let layer = ObserveLayer::new(RouteMetrics::new(families, labels.into(), false));
        let (mock, below) = Stage::new();
        (metrics, layer.layer(mock), below)
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_counts_when_its_body_has_ended() {
        let (metrics, mut stage, mut below) = stage();
        let answered = stage.call(request("hello"));
        let (request, respond) = below.next_request().await.unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
        let (request, _) = request.into_parts();
        request.into_body().collect().await.unwrap();
        respond.send_response(Ok(response("welcome")));
        let response = answered.await.unwrap();
        assert_eq!(metrics.sum(STATUSES, &[]), 0.0);
        tokio::time::advance(Duration::from_secs(1)).await;
        response.into_body().collect().await.unwrap();
        let ok = ["route_name=\"r\"", "http_status=\"200\"", "error=\"\""];
        assert_eq!(metrics.sum(STATUSES, &ok), 1.0);
        assert_eq!(metrics.sum(SUM, &[]), 2.0);
        let frames = "outbound_http_route_request_frame_size_bytes_sum";
        assert_eq!(metrics.sum(frames, &[]), 5.0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_counts_when_it_is_known() {
        let (metrics, mut stage, mut below) = stage();
        let answered = stage.call(request(""));
        let (_, respond) = below.next_request().await.unwrap();
        tokio::time::advance(Duration::from_secs(3)).await;
        respond.send_response(Err(Reason::QueueFull.into()));
        assert!(answered.await.is_err());
        assert_eq!(metrics.sum(STATUSES, &["error=\"LOAD_SHED\""]), 1.0);
        assert_eq!(metrics.sum(SUM, &[]), 3.0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_given_up_counts_nothing_and_a_body_counts_as_unknown() {
        let (metrics, mut stage, mut below) = stage();
        drop(stage.call(request("")));
        below.next_request().await.unwrap();
        assert_eq!(
            (metrics.sum(STATUSES, &[]), metrics.sum(COUNT, &[])),
            (0.0, 0.0)
        );
        let answered = stage.call(request(""));
        let (_, respond) = below.next_request().await.unwrap();
        respond.send_response(Ok(response("never read")));
        drop(answered.await.unwrap());
        assert_eq!(metrics.sum(STATUSES, &["error=\"UNKNOWN\""]), 1.0);
    }

    #[tokio::test]
    async fn is_ready_when_the_stage_below_is() {
        let (_metrics, stage, mut below) = stage();
        assert_readiness_passes(stage, &mut below);
    }
}
