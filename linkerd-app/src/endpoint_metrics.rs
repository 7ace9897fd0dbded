//! Requests to an endpoint, or to the application, and their responses: `request_total`, `response_latency_ms`,
//! `response_total`.

use crate::metrics::EndpointFamilies;
use http::{HeaderMap, Response, StatusCode, Version};
use linkerd_proxy_core::{
    Error, Rejected,
    error::ObserveRejection,
    http::{
        BodyEnd, BodyError, HttpRequest, Now, ObserveResponse, ObservedResponse, ResponseBody,
        Upload, grpc_status, is_failure, is_grpc,
    },
    metrics::{Counter, Histogram, LabelSet, Labels},
};
use pin_project_lite::pin_project;
use std::{
    cell::{OnceCell, RefCell},
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

/// Counts what passes an endpoint.
#[derive(Clone, Debug)]
pub struct EndpointMetricsLayer(Rc<EndpointSeries>);

/// See [`EndpointMetricsLayer`].
#[derive(Clone, Debug)]
pub struct EndpointMetrics<S> {
    inner: S,
    series: Rc<EndpointSeries>,
}

/// The series of one endpoint. Many are only known and never asked: what they are asked is shown as 0, and the rest is
/// made for the first answer.
#[derive(Debug)]
struct EndpointSeries {
    addr: SocketAddr,
    families: Arc<EndpointFamilies>,
    labels: LabelSet,
    requests: Counter,
    answers: OnceCell<Box<Answers>>,
}

/// The series of an endpoint's responses.
#[derive(Debug, Default)]
struct Answers {
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
    error: Option<Broken>,
}

/// The cause of an exchange that ended without a response, or in the middle of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    Reset(h2::Reason),
    Unclassified,
}

impl EndpointMetricsLayer {
    /// Counts what passes the endpoint at `addr` in series with these labels.
    pub fn new(families: &Arc<EndpointFamilies>, labels: LabelSet, addr: SocketAddr) -> Self {
        Self(Rc::new(EndpointSeries {
            addr,
            families: families.clone(),
            requests: families.requests.get(labels.clone()),
            labels,
            answers: OnceCell::new(),
        }))
    }
}

impl<S> Layer<S> for EndpointMetricsLayer {
    type Service = EndpointMetrics<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let series = self.0.clone();
        EndpointMetrics { inner, series }
    }
}

impl<S> Service<HttpRequest> for EndpointMetrics<S>
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
        self.series.requests.incr();
        let grpc = is_grpc(request.headers());
        let answered_as_grpc = grpc && request.version() == Version::HTTP_2;
        let upload = request.body().upload();
        EndpointMetricsFuture {
            start: request.context().attempted,
            inner: self.inner.call(request),
            series: self.series.clone(),
            grpc,
            answered_as_grpc,
            upload,
        }
    }
}

pin_project! {
    /// The future of [`EndpointMetrics`].
    pub struct EndpointMetricsFuture<F> {
        #[pin]
        inner: F,
        start: Instant,
        series: Rc<EndpointSeries>,
        grpc: bool,
        // Whether the proxy's own answer would be gRPC's.
        answered_as_grpc: bool,
        // The request's body, if it has one.
        upload: Option<Rc<Upload>>,
    }
}

impl<F> Future for EndpointMetricsFuture<F>
where
    F: Future<Output = Result<Response<ResponseBody>, Rejected<HttpRequest>>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let this = self.project();
        // What is polled is changed where it is and returned: taking it apart would move it twice.
        let mut polled = this.inner.poll(cx);
        match &mut polled {
            Poll::Pending => {}
            Poll::Ready(Ok(response)) => {
                let body = response.body_mut();
                if *this.grpc {
                    body.answers_grpc();
                }
                body.observe(this.series.clone(), *this.start);
                if this.upload.is_some() {
                    body.answers_upload(this.upload.take());
                }
            }
            Poll::Ready(Err(rejected)) => {
                if let Some(broken) = this.upload.as_ref().and_then(|upload| upload.failure()) {
                    // The client broke off: nothing of it is the endpoint's, and there is nothing to send again.
                    *rejected = Rejected::lost(broken);
                    return polled;
                }
                let series = &*this.series;
                rejected.error.or_peer(series.addr);
                // A request that goes elsewhere is not this endpoint's answer.
                match rejected.request {
                    Some(_) => rejected.observer = Some(this.series.clone()),
                    None => series.failed(&rejected.error, *this.answered_as_grpc),
                }
            }
        }
        polled
    }
}

impl ObserveRejection for EndpointSeries {
    fn was_final(&self, error: &Error) {
        self.failed(error, false);
    }
}

impl ObserveResponse for EndpointSeries {
    fn data(&self, exchange: &ObservedResponse<'_>, _: usize, now: &Now) {
        self.first(exchange, now);
    }

    fn end(&self, exchange: &ObservedResponse<'_>, end: BodyEnd<'_>, now: &Now) {
        self.first(exchange, now);
        self.response(match end {
            BodyEnd::Complete(trailers) => Self::class(exchange, trailers),
            BodyEnd::Dropped => Self::class(exchange, None),
            BodyEnd::Failed(error) => Class {
                status: Some(exchange.status),
                failure: true,
                grpc: None,
                error: Some(Broken::by(error)),
            },
        });
    }
}

impl EndpointSeries {
    /// Measures until the first frame of data, or the end if there is none.
    fn first(&self, exchange: &ObservedResponse<'_>, now: &Now) {
        if !exchange.has_data {
            self.latency(exchange.status, now.since(exchange.start));
        }
    }

    fn class(seen: &ObservedResponse<'_>, trailers: Option<&HeaderMap>) -> Class {
        let code = seen.code.or_else(|| trailers.and_then(grpc_status));
        let grpc = seen.is_grpc.then_some(code);
        Class {
            status: Some(seen.status),
            failure: match grpc {
                // Without a code it counts as a success, as with the incumbent.
                Some(None) => false,
                Some(code) => is_failure(seen.status, code),
                None => is_failure(seen.status, None),
            },
            grpc,
            error: None,
        }
    }

    fn latency(&self, status: StatusCode, latency: Duration) {
        let take = || {
            self.families
                .latency
                .get(self.labels.and(status_label(Some(status))))
        };
        with_cached(&self.answers().latencies, status, take, |histogram| {
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
            let labels = status_label(class.status)
                .with("classification", classification)
                .with("grpc_status", grpc)
                .with("error", class.error.map_or("", Broken::label));
            let labels = self.labels.and(labels);
            self.families.responses.get(labels)
        };
        with_cached(&self.answers().responses, class, take, Counter::incr);
    }

    /// Counts an exchange that got no response: as what the client sees, when the proxy answers for the endpoint.
    fn failed(&self, error: &Error, grpc: bool) {
        let reason = error.reason();
        let (status, grpc, error) = match error.reset_code() {
            Some(code) => (None, None, Some(Broken::Reset(code))),
            None if grpc => (Some(StatusCode::OK), Some(Some(reason.grpc_code())), None),
            None => (Some(reason.status()), None, None),
        };
        self.response(Class {
            status,
            failure: true,
            grpc,
            error,
        });
    }

    fn answers(&self) -> &Answers {
        self.answers.get_or_init(Box::default)
    }
}

fn status_label(status: Option<StatusCode>) -> Labels {
    match status {
        Some(status) => Labels::new().with("status_code", status.as_u16()),
        None => Labels::new(),
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
            // Most lists stay with one.
            list.reserve_exact(1);
            list.push((key, handle));
        }
    }
}

impl Broken {
    /// Why a body broke off.
    fn by(error: &BodyError) -> Self {
        error.reset_code().map_or(Self::Unclassified, Self::Reset)
    }

    /// The `error` label.
    fn label(self) -> &'static str {
        match self {
            Self::Unclassified => "unclassified",
            Self::Reset(h2::Reason::CANCEL) => "h2(CANCEL)",
            Self::Reset(h2::Reason::REFUSED_STREAM) => "h2(REFUSED_STREAM)",
            Self::Reset(h2::Reason::INTERNAL_ERROR) => "h2(INTERNAL_ERROR)",
            Self::Reset(h2::Reason::ENHANCE_YOUR_CALM) => "h2(ENHANCE_YOUR_CALM)",
            Self::Reset(h2::Reason::NO_ERROR) => "h2(NO_ERROR)",
            Self::Reset(_) => "h2(OTHER)",
        }
    }
}

/// The code of a gRPC response that has none.
const UNKNOWN: u8 = 2;

#[cfg(test)]
mod tests;
