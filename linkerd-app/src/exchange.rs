//! What an endpoint, or the application, is asked and answers: `request_total`, `response_latency_ms`,
//! `response_total`.

use crate::metrics::EndpointFamilies;
use http::{HeaderMap, Response, StatusCode, Version};
use linkerd_proxy_core::{
    Availability, EndpointState, Error, Failed,
    http::{
        End, Observe, Observed, RequestBody, client::ClientBody, grpc_status, is_failure, is_grpc,
    },
    metrics::{Counter, Histogram, LabelSet, Labels},
    reason::Phase,
};
use pin_project_lite::pin_project;
use std::{
    cell::RefCell,
    net::SocketAddr,
    pin::Pin,
    rc::Rc,
    task::{Context as TaskContext, Poll, ready},
    time::Duration,
};
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

/// A request that is counted.
pub type HttpRequest = http::Request<RequestBody>;

/// The body of an endpoint's response.
pub type Body = Observed<ClientBody, Exchange>;

/// Counts what passes an endpoint.
#[derive(Clone, Debug)]
pub struct EndpointMetricsLayer(Rc<Series>);

/// See [`EndpointMetricsLayer`].
#[derive(Clone, Debug)]
pub struct EndpointMetrics<S> {
    inner: S,
    series: Rc<Series>,
}

/// The series of one endpoint.
#[derive(Debug)]
struct Series {
    addr: SocketAddr,
    families: EndpointFamilies,
    labels: LabelSet,
    requests: Counter,
    /// Few: one for each status that the endpoint answers with.
    latencies: RefCell<Vec<(StatusCode, Histogram)>>,
    responses: RefCell<Vec<(Class, Counter)>>,
}

/// How an exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Class {
    status: Option<StatusCode>,
    failure: bool,
    /// `Some(None)`: gRPC without a code.
    grpc: Option<Option<u8>>,
    error: &'static str,
}

impl EndpointMetricsLayer {
    /// Counts what passes the endpoint at `addr` in series with these labels.
    pub fn new(families: &EndpointFamilies, labels: Labels, addr: SocketAddr) -> Self {
        Self(Rc::new(Series::new(families, labels, addr)))
    }
}

impl<S> Layer<S> for EndpointMetricsLayer {
    type Service = EndpointMetrics<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let series = self.0.clone();
        EndpointMetrics { inner, series }
    }
}

impl<S: Availability> Availability for EndpointMetrics<S> {
    fn state(&self) -> EndpointState {
        self.inner.state()
    }

    fn wanted(&self) {
        self.inner.wanted();
    }

    fn gave_up(&self, error: &Error) {
        self.series.failed(error, false);
    }

    fn inspect(&self) -> serde_json::Value {
        self.inner.inspect()
    }
}

impl<S> Service<HttpRequest> for EndpointMetrics<S>
where
    S: Service<HttpRequest, Response = Response<ClientBody>, Error = Failed<HttpRequest>>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = EndpointMetricsFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: HttpRequest) -> Self::Future {
        self.series.requests.incr();
        let grpc = is_grpc(request.headers());
        let answered_as_grpc = grpc && request.version() == Version::HTTP_2;
        EndpointMetricsFuture {
            inner: self.inner.call(request),
            start: Instant::now(),
            series: self.series.clone(),
            grpc,
            answered_as_grpc,
        }
    }
}

pin_project! {
    /// The future of [`EndpointMetrics`].
    pub struct EndpointMetricsFuture<F> {
        #[pin]
        inner: F,
        start: Instant,
        series: Rc<Series>,
        grpc: bool,
        // Whether the proxy's own answer would be gRPC's.
        answered_as_grpc: bool,
    }
}

impl<F> Future for EndpointMetricsFuture<F>
where
    F: Future<Output = Result<Response<ClientBody>, Failed<HttpRequest>>>,
{
    type Output = Result<Response<Body>, Failed<HttpRequest>>;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let this = self.project();
        Poll::Ready(match ready!(this.inner.poll(cx)) {
            Ok(response) => {
                let exchange = Exchange::new(this.series, *this.start, *this.grpc, &response);
                Ok(response.map(|body| Observed::new(body, exchange)))
            }
            Err(mut failed) => {
                failed.error = failed.error.or_peer(this.series.addr);
                // A request that goes elsewhere is not this endpoint's answer.
                if failed.request.is_none() {
                    this.series.failed(&failed.error, *this.answered_as_grpc);
                }
                Err(failed)
            }
        })
    }
}

/// A response on its way back.
#[derive(Debug)]
pub struct Exchange {
    series: Rc<Series>,
    start: Instant,
    status: StatusCode,
    grpc: bool,
    /// The code in the headers, if there is one.
    code: Option<u8>,
    measured: bool,
}

impl Exchange {
    fn new<B>(series: &Rc<Series>, start: Instant, grpc: bool, response: &Response<B>) -> Self {
        Self {
            series: series.clone(),
            start,
            status: response.status(),
            grpc,
            code: grpc.then(|| grpc_status(response.headers())).flatten(),
            measured: false,
        }
    }

    fn measure(&mut self) {
        if !self.measured {
            self.measured = true;
            self.series.latency(self.status, self.start.elapsed());
        }
    }

    fn class(&self, trailers: Option<&HeaderMap>) -> Class {
        let code = self.code.or_else(|| trailers.and_then(grpc_status));
        let grpc = self.grpc.then_some(code);
        Class {
            status: Some(self.status),
            failure: match grpc {
                // Without a code it counts as a success, as with the incumbent.
                Some(None) => false,
                Some(code) => is_failure(self.status, code),
                None => is_failure(self.status, None),
            },
            grpc,
            error: "",
        }
    }
}

impl Observe for Exchange {
    fn data(&mut self, _: usize) {
        self.measure();
    }

    fn end(&mut self, end: End<'_>) {
        self.measure();
        let class = match end {
            End::Complete(trailers) => self.class(trailers),
            End::Dropped => self.class(None),
            End::Failed(error) => Class {
                status: Some(self.status),
                failure: true,
                grpc: None,
                error: stream_error(error),
            },
        };
        self.series.response(class);
    }
}

impl Series {
    fn new(families: &EndpointFamilies, labels: Labels, addr: SocketAddr) -> Self {
        let labels = LabelSet::from(labels);
        Self {
            addr,
            requests: families.requests.get(labels.clone()),
            families: families.clone(),
            labels,
            latencies: RefCell::default(),
            responses: RefCell::default(),
        }
    }

    fn latency(&self, status: StatusCode, latency: Duration) {
        let take = || self.families.latency.get(self.with_status(Some(status)));
        with_cached(&self.latencies, status, take, |histogram| {
            histogram.observe_duration(latency);
        });
    }

    fn response(&self, class: Class) {
        let take = || {
            let grpc = match class.grpc {
                None => String::new(),
                Some(code) => code.unwrap_or(UNKNOWN).to_string(),
            };
            let classification = match class.failure {
                true => "failure",
                false => "success",
            };
            let labels = self
                .with_status(class.status)
                .with("classification", classification)
                .with("grpc_status", grpc)
                .with("error", class.error);
            self.families.responses.get(labels)
        };
        with_cached(&self.responses, class, take, Counter::incr);
    }

    /// Counts an exchange that got no response: as what the client sees, when the proxy answers for the endpoint.
    fn failed(&self, error: &Error, grpc: bool) {
        let reason = error.reason();
        let (status, grpc, error) = match error.reset_code() {
            Some(code) => (None, None, h2_error(code)),
            None if grpc => (Some(StatusCode::OK), Some(Some(reason.grpc_code())), ""),
            None => (Some(reason.status()), None, ""),
        };
        self.response(Class {
            status,
            failure: true,
            grpc,
            error,
        });
    }

    fn with_status(&self, status: Option<StatusCode>) -> Labels {
        match status {
            Some(status) => self.labels.to_labels().with("status_code", status.as_u16()),
            None => self.labels.to_labels(),
        }
    }
}

/// Sends a request to the only endpoint there is, and once more if that is all that can save it. What the endpoint
/// refuses fails at once.
pub async fn send_to_only<S>(mut service: S, mut request: HttpRequest) -> Result<S::Response, Error>
where
    S: Service<HttpRequest, Error = Failed<HttpRequest>> + Availability,
{
    loop {
        let failed = match service.call(request).await {
            Ok(response) => return Ok(response),
            Err(failed) => failed,
        };
        let connecting = failed.error.reason().row().phase == Phase::Connect;
        match failed.request {
            Some(returned) if !connecting => request = returned,
            Some(_) => {
                service.gave_up(&failed.error);
                return Err(failed.error);
            }
            None => return Err(failed.error),
        }
    }
}

/// Uses a handle from a short list, to which it is added if need be.
pub(crate) fn with_cached<K: Copy + PartialEq, M>(
    list: &RefCell<Vec<(K, M)>>,
    key: K,
    take: impl FnOnce() -> M,
    apply: impl FnOnce(&M),
) {
    let mut list = list.borrow_mut();
    match list.iter().find(|(known, _)| *known == key) {
        Some((_, handle)) => apply(handle),
        None => {
            let handle = take();
            apply(&handle);
            list.push((key, handle));
        }
    }
}

/// The `error` label of a response whose body broke off.
fn stream_error(error: &hyper::Error) -> &'static str {
    let h2 = linkerd_proxy_core::error::find::<h2::Error>(error);
    h2.and_then(h2::Error::reason)
        .map_or("unclassified", h2_error)
}

/// The `error` label of a stream's reset.
fn h2_error(code: h2::Reason) -> &'static str {
    match code {
        h2::Reason::CANCEL => "h2(CANCEL)",
        h2::Reason::REFUSED_STREAM => "h2(REFUSED_STREAM)",
        h2::Reason::INTERNAL_ERROR => "h2(INTERNAL_ERROR)",
        h2::Reason::ENHANCE_YOUR_CALM => "h2(ENHANCE_YOUR_CALM)",
        h2::Reason::NO_ERROR => "h2(NO_ERROR)",
        _ => "h2(OTHER)",
    }
}

/// The code of a gRPC response that has none.
const UNKNOWN: u8 = 2;
