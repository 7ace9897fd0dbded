//! Counts a route's use of a backend: `outbound_{http,grpc}_route_backend_*`.

use super::status::{Status, StatusCounters};
use crate::metrics::RouteFamilies;
use http::Response;
use linkerd_balance::Arrival;
use linkerd_proxy_core::http::HttpRequest;
use linkerd_proxy_core::{
    Error,
    http::{BodyEnd, Now, ObserveResponse, ObservedResponse, ResponseBody},
    metrics::{Counter, Histogram, LabelSet},
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

/// Counts requests to a backend and their responses.
#[derive(Clone, Debug)]
pub struct BackendMetricsLayer(Rc<BackendSeries>);

/// See [`BackendMetricsLayer`].
#[derive(Clone, Debug)]
pub struct BackendMetrics<S> {
    inner: S,
    series: Rc<BackendSeries>,
}

#[derive(Debug)]
struct BackendSeries {
    requests: Counter,
    duration: Histogram,
    frame_size: Histogram,
    statuses: StatusCounters,
}

impl BackendMetricsLayer {
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

impl<S> Layer<S> for BackendMetricsLayer {
    type Service = BackendMetrics<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let series = self.0.clone();
        BackendMetrics { inner, series }
    }
}

impl<S> Service<HttpRequest> for BackendMetrics<S>
where
    S: Service<HttpRequest, Response = Response<ResponseBody>, Error = Error>,
{
    type Response = S::Response;
    type Error = Error;
    type Future = BackendMetricsFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: HttpRequest) -> Self::Future {
        self.series.requests.incr();
        BackendMetricsFuture {
            start: request.arrived(),
            inner: self.inner.call(request),
            series: self.series.clone(),
        }
    }
}

pin_project! {
    /// The future of [`BackendMetrics`].
    pub struct BackendMetricsFuture<F> {
        #[pin]
        inner: F,
        series: Rc<BackendSeries>,
        start: Instant,
    }
}

impl<F> Future for BackendMetricsFuture<F>
where
    F: Future<Output = Result<Response<ResponseBody>, Error>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut polled = this.inner.poll(cx);
        match &mut polled {
            Poll::Pending => {}
            Poll::Ready(Ok(response)) => {
                let body = response.body_mut();
                body.observe(this.series.clone(), *this.start);
            }
            Poll::Ready(Err(error)) => this.series.statuses.count(Status::of_error(error)),
        }
        polled
    }
}

/// Counts a backend's responses.
impl ObserveResponse for BackendSeries {
    fn data(&self, _: &ObservedResponse<'_>, len: usize, _: &Now) {
        self.frame_size.observe(len as u64);
    }

    /// Measures since the end of the request. A response that ends before its request took no time.
    fn end(&self, exchange: &ObservedResponse<'_>, end: BodyEnd<'_>, now: &Now) {
        let since = exchange.request_ended();
        let duration = since.map(|since| now.get().saturating_duration_since(since));
        self.duration.observe_duration(duration.unwrap_or_default());
        self.statuses.count(Status::of(exchange, end));
    }
}
