//! Stage 5: a route's use of a backend, and what the route counts of it.

use super::{
    concrete::{Concrete, ConcreteFuture},
    endpoint::HttpRequest,
    status::{Status, StatusCounters},
};
use crate::metrics::RouteFamilies;
use http::Response;
use linkerd_profiles::Meta;
use linkerd_proxy_core::{
    Error,
    http::{BodyEnd, Now, ObserveResponse, ObservedResponse, ResponseBody},
    metrics::{Counter, Histogram, LabelSet},
};
use pin_project_lite::pin_project;
use std::{
    pin::Pin,
    rc::Rc,
    task::{Context as TaskContext, Poll},
};
use tokio::time::Instant;

/// A backend of one route.
pub struct RouteBackend {
    /// The backend.
    pub concrete: Rc<Concrete>,
    series: Rc<Series>,
    /// How errors name it.
    context: String,
}

#[derive(Debug)]
struct Series {
    requests: Counter,
    duration: Histogram,
    frame_size: Histogram,
    statuses: StatusCounters,
}

impl RouteBackend {
    /// A route's use of a backend.
    pub fn new(
        concrete: Rc<Concrete>,
        families: &RouteFamilies,
        statuses: StatusCounters,
        labels: LabelSet,
        meta: &Meta,
    ) -> Self {
        let series = Series {
            requests: families.backend_requests.get(labels.clone()),
            duration: families.backend_duration.get(labels.clone()),
            frame_size: families.backend_frame_size.get(labels),
            statuses,
        };
        Self {
            concrete,
            series: Rc::new(series),
            context: format!("backend {meta}"),
        }
    }

    /// Sends a request, the exchange of which began at `start`.
    pub fn send(self: &Rc<Self>, request: HttpRequest, start: Instant) -> BackendFuture {
        self.series.requests.incr();
        BackendFuture {
            sent: self.concrete.send(request, start),
            backend: self.clone(),
            start,
        }
    }
}

pin_project! {
    /// The future of [`RouteBackend::send`].
    pub struct BackendFuture {
        #[pin]
        sent: ConcreteFuture,
        backend: Rc<RouteBackend>,
        start: Instant,
    }
}

impl Future for BackendFuture {
    type Output = Result<Response<ResponseBody>, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let series = &this.backend.series;
        let mut polled = this.sent.poll(cx);
        match &mut polled {
            Poll::Pending => {}
            Poll::Ready(Ok(response)) => {
                response.body_mut().observe(series.clone(), *this.start);
            }
            Poll::Ready(Err(error)) => {
                series.statuses.count(Status::of_error(error));
                error.add_context(this.backend.context.clone());
            }
        }
        polled
    }
}

/// Counts a backend's responses.
impl ObserveResponse for Series {
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
