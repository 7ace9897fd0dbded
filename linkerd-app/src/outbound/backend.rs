//! Stage 5: a route's use of a backend, and what the route counts of it.

use super::{
    concrete::{Concrete, ConcreteFuture, ConcreteObservers},
    endpoint::HttpRequest,
    status::{Status, StatusCounters},
};
use crate::metrics::RouteFamilies;
use http::Response;
use linkerd_profiles::Meta;
use linkerd_proxy_core::{
    Error,
    http::{Both, End, Now, Observe, Observed, Progress, client::ClientBody},
    metrics::{Counter, Histogram, Labels},
};
use pin_project_lite::pin_project;
use std::{
    pin::Pin,
    rc::Rc,
    task::{Context as TaskContext, Poll, ready},
};
use tokio::time::Instant;

/// The body of a backend's response.
pub type BackendBody = Observed<ClientBody, BackendObservers>;

/// Those who observe it.
pub type BackendObservers = Both<ConcreteObservers, BackendObserver>;

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
        labels: Labels,
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

    /// Sends a request. `progress` tells when its body has ended; without one it had ended at the `start`.
    pub fn send(
        self: &Rc<Self>,
        request: HttpRequest,
        start: Instant,
        progress: Option<Rc<Progress>>,
    ) -> BackendFuture {
        self.series.requests.incr();
        BackendFuture {
            sent: self.concrete.send(request, start),
            backend: self.clone(),
            start,
            progress,
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
        progress: Option<Rc<Progress>>,
    }
}

impl Future for BackendFuture {
    type Output = Result<Response<BackendBody>, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let series = &this.backend.series;
        Poll::Ready(match ready!(this.sent.poll(cx)) {
            Ok(response) => {
                let observer = BackendObserver {
                    series: series.clone(),
                    status: Status::of_response(&response, series.statuses.is_grpc()),
                    start: *this.start,
                    progress: this.progress.take(),
                };
                Ok(response.map(|body| body.and(observer)))
            }
            Err(error) => {
                series.statuses.count(Status::of_error(&error));
                Err(error.context(this.backend.context.clone()))
            }
        })
    }
}

/// Counts a backend's response.
#[derive(Debug)]
pub struct BackendObserver {
    series: Rc<Series>,
    status: Status,
    start: Instant,
    progress: Option<Rc<Progress>>,
}

impl Observe for BackendObserver {
    fn data(&mut self, len: usize, _: &Now) {
        self.series.frame_size.observe(len as u64);
    }

    fn end(&mut self, end: End<'_>, now: &Now) {
        // A response that ends before its request took no time.
        let since = match &self.progress {
            None => Some(self.start),
            Some(progress) => progress.ended.get(),
        };
        let duration = since
            .map(|since| now.get().saturating_duration_since(since))
            .unwrap_or_default();
        self.series.duration.observe_duration(duration);
        self.series.statuses.count(self.status.at_end(end));
    }
}
