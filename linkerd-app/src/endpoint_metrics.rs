//! Requests to an endpoint, or to the application, and their responses: `request_total`, `response_latency_ms`,
//! `response_total`.

use crate::{
    metrics::EndpointFamilies,
    response_metrics::{Classification, ResponseSeries},
};
use http::{Response, StatusCode, Version};
use linkerd_proxy_core::{
    Error, Rejected,
    error::ObserveRejection,
    http::{
        AttemptNotes, BodyEnd, HttpRequest, Now, ObserveResponse, ObservedResponse, ResponseBody,
        ResponseClasses, Upload, is_grpc,
    },
    metrics::{Counter, LabelSet},
};
use pin_project_lite::pin_project;
use std::{
    cell::OnceCell,
    net::SocketAddr,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context as TaskContext, Poll},
    time::Duration,
};
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

/// Counts the requests of an endpoint, in its own series or in series that the requests bring.
#[derive(Clone, Debug)]
pub struct EndpointMetricsLayer<P = Rc<EndpointSeries>>(P);

/// See [`EndpointMetricsLayer`].
#[derive(Clone, Debug)]
pub struct EndpointMetrics<S, P = Rc<EndpointSeries>> {
    inner: S,
    series: P,
}

/// The choice of the series that a request is counted in.
pub trait ChooseSeries: Clone {
    /// The series of a request.
    fn of_request(&self, request: &HttpRequest) -> Rc<EndpointSeries>;
}

/// The series that the route of a request has put into its context. Many routes share an endpoint, such as the
/// application.
#[derive(Clone, Copy, Debug)]
pub struct RouteSeries;

/// The series of one endpoint. Many endpoints never get a request: their requests are shown as 0, and the other series are
/// made for the first response.
#[derive(Debug)]
pub struct EndpointSeries {
    addr: SocketAddr,
    families: Arc<EndpointFamilies>,
    labels: LabelSet,
    requests: Counter,
    answers: OnceCell<Box<ResponseSeries>>,
}

impl EndpointMetricsLayer {
    /// Counts the requests of the endpoint at `addr` in series with these labels.
    pub fn new(families: &Arc<EndpointFamilies>, labels: LabelSet, addr: SocketAddr) -> Self {
        Self(Rc::new(EndpointSeries::new(families, labels, addr)))
    }
}

impl EndpointMetricsLayer<RouteSeries> {
    /// Counts each request in the series of its route.
    pub fn of_routes() -> Self {
        Self(RouteSeries)
    }
}

impl ChooseSeries for Rc<EndpointSeries> {
    fn of_request(&self, _: &HttpRequest) -> Rc<EndpointSeries> {
        self.clone()
    }
}

impl ChooseSeries for RouteSeries {
    fn of_request(&self, request: &HttpRequest) -> Rc<EndpointSeries> {
        let series = request.context().route_series.clone();
        let series = series.and_then(|series| series.downcast().ok());
        series.expect("a request comes through a route, which gives it its series")
    }
}

impl<S, P: Clone> Layer<S> for EndpointMetricsLayer<P> {
    type Service = EndpointMetrics<S, P>;

    fn layer(&self, inner: S) -> Self::Service {
        let series = self.0.clone();
        EndpointMetrics { inner, series }
    }
}

impl<S, P: ChooseSeries> Service<HttpRequest> for EndpointMetrics<S, P>
where
    S: Service<HttpRequest, Response = Response<ResponseBody>, Error = Rejected<HttpRequest>>,
{
    type Response = Response<ResponseBody>;
    type Error = S::Error;
    type Future = EndpointMetricsFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: HttpRequest) -> Self::Future {
        let series = self.series.of_request(&request);
        series.requests.incr();
        let context = request.context();
        if let Some(notes) = &context.notes {
            // The time of an attempt that did not wait is that of the request's arrival, before its target was discovered.
            notes.send_to(series.addr, context.attempted.max(context.arrived));
            notes.of_endpoint_labels(&series.labels);
        }
        let grpc = is_grpc(request.headers());
        let answered_as_grpc = grpc && request.version() == Version::HTTP_2;
        let upload = request.body().upload();
        let classes = request.context().response_classes.clone();
        EndpointMetricsFuture {
            start: request.context().attempted,
            counted: Counted {
                attempts: request.context().attempts.clone(),
                series,
            },
            inner: self.inner.call(request),
            grpc,
            answered_as_grpc,
            upload,
            classes,
        }
    }
}

pin_project! {
    /// The future of [`EndpointMetrics`].
    pub struct EndpointMetricsFuture<F> {
        #[pin]
        inner: F,
        start: Instant,
        counted: Counted,
        grpc: bool,
        // Whether the proxy's own answer would be in gRPC.
        answered_as_grpc: bool,
        // The request's body, if it has one.
        upload: Option<Rc<Upload>>,
        // The response classes of its route, if that has any.
        classes: Option<Rc<ResponseClasses>>,
    }
}

/// The series of a request. A drop before its answer counts a failure if a limit of the route has ended the attempt.
struct Counted {
    /// The notes of a request without an answer, if a limit may end it.
    attempts: Option<Rc<AttemptNotes>>,
    series: Rc<EndpointSeries>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let attempts = self.attempts.as_ref();
        if let Some(reason) = attempts.and_then(|attempts| attempts.timed_out_by_policy()) {
            let failed = Classification::of_failure(&reason.into(), false, None);
            self.series.count(failed);
        }
    }
}

impl<F> Future for EndpointMetricsFuture<F>
where
    F: Future<Output = Result<Response<ResponseBody>, Rejected<HttpRequest>>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let this = self.project();
        // The result is changed in place and returned: taking it apart would move it twice.
        let mut polled = this.inner.poll(cx);
        if polled.is_ready() {
            this.counted.attempts = None;
        }
        match &mut polled {
            Poll::Pending => {}
            Poll::Ready(Ok(response)) => {
                let status = response.status();
                let body = response.body_mut();
                if let Some(classes) = this.classes {
                    body.belongs_to(classes.find(status));
                }
                if *this.grpc {
                    body.answers_grpc();
                }
                body.observe(this.counted.series.clone(), *this.start);
                if this.upload.is_some() {
                    body.answers_upload(this.upload.take());
                }
            }
            Poll::Ready(Err(rejected)) => {
                if let Some(broken) = this.upload.as_ref().and_then(|upload| upload.failure()) {
                    // The client broke off: the failure is not the endpoint's, and the request cannot be sent again.
                    *rejected = Rejected::lost(broken);
                    return polled;
                }
                let series = &this.counted.series;
                rejected.error.or_peer(series.addr);
                // A request that was returned is no answer of this endpoint.
                match rejected.request {
                    Some(ref request) => {
                        if let Some(notes) = &request.context().notes {
                            notes.give_back();
                        }
                        rejected.observer = Some(series.clone());
                    }
                    None => {
                        let (grpc, classes) = (*this.answered_as_grpc, this.classes.as_deref());
                        series.count(Classification::of_answer(&rejected.error, grpc, classes));
                    }
                }
            }
        }
        polled
    }
}

impl ObserveRejection for EndpointSeries {
    fn was_final(&self, error: &Error) {
        self.count(Classification::of_answer(error, false, None));
    }
}

impl ObserveResponse for EndpointSeries {
    fn data(&self, exchange: &ObservedResponse<'_>, _: usize, now: &Now) {
        self.first(exchange, now);
    }

    fn end(&self, exchange: &ObservedResponse<'_>, end: BodyEnd<'_>, now: &Now) {
        self.first(exchange, now);
        self.count(Classification::of(exchange, end));
    }
}

impl EndpointSeries {
    /// The series with these labels, of the endpoint at `addr`.
    pub fn new(families: &Arc<EndpointFamilies>, labels: LabelSet, addr: SocketAddr) -> Self {
        Self {
            addr,
            families: families.clone(),
            requests: families.requests.get(labels.clone()),
            labels,
            answers: OnceCell::new(),
        }
    }

    /// Counts a request that the proxy has answered in place of an endpoint, as its admin server does.
    pub fn count_answer(&self, status: StatusCode, latency: Duration) {
        self.requests.incr();
        self.latency(status, latency);
        self.count(Classification::of_status(status));
    }

    /// Measures the latency until the first frame of data, or until the end if there is none.
    fn first(&self, exchange: &ObservedResponse<'_>, now: &Now) {
        if !exchange.has_data {
            self.latency(exchange.status, now.since(exchange.start));
        }
    }

    fn latency(&self, status: StatusCode, latency: Duration) {
        let family = &self.families.latency;
        self.answers()
            .observe_latency(family, &self.labels, status, latency);
    }

    fn count(&self, class: Classification) {
        let family = &self.families.responses;
        self.answers().count(family, &self.labels, class);
    }

    fn answers(&self) -> &ResponseSeries {
        self.answers.get_or_init(Box::default)
    }
}

#[cfg(test)]
mod tests;
