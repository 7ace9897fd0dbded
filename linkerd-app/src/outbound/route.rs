//! Stage 4: the route of a request.
//!
//! - **Sits** below the HTTP server; one router for each target and version, shared by connections.
//! - **Waits for** nothing.
//! - **Fails as** `NoRoute`, `InvalidPolicy`, `Forbidden`, and `Unavailable` when no backend takes requests.
//! - **Bounds**: backends are those of the present policy.
//! - **Metrics**: `outbound_{http,grpc}_route_*`.
//!
//! The router reads an immutable snapshot; that an update has come is one atomic load.

use super::{
    backend::{BackendFuture, RouteBackend},
    concrete::{Concrete, ConcreteKey},
    context::Context,
    distribute::Distribute,
    endpoint::HttpRequest,
    status::{Status, StatusCounters},
};
use crate::metrics::RouteFamilies;
use futures::future::{LocalBoxFuture, ready};
use http::{HeaderMap, HeaderName, HeaderValue, Response, Version};
use linkerd_profiles::{
    Backend, Discovered, DiscoveryWatch, Distribution, Meta, Protocol, RouteSource, RouteSpec,
    State, TcpFilter,
};
use linkerd_proxy_core::{
    Error, Reason, Unavailable,
    http::{
        BodyEnd, Now, ObserveRequest, ObserveResponse, ObservedRequest, ObservedResponse,
        ResponseBody,
    },
    metrics::{Histogram, LabelSet},
};
use pin_project_lite::pin_project;
use rand::rngs::SmallRng;
use std::{
    cell::RefCell,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context as TaskContext, Poll},
};
use tokio::{sync::watch, time::Instant};
use tower_service::Service;

/// Routes the requests of one target. Its copies share everything.
#[derive(Clone)]
pub struct Router(Rc<Inner>);

struct Inner {
    ctx: Rc<Context>,
    version: Version,
    /// How errors name the target.
    name: String,
    updates: RefCell<watch::Receiver<State>>,
    snapshot: RefCell<Rc<Snapshot>>,
    /// Backends, to be found again when an update still uses them.
    backends: RefCell<Vec<(ConcreteKey, Rc<Concrete>)>>,
    rng: RefCell<SmallRng>,
}

/// What applies at present.
enum Snapshot {
    Route(Rc<Route>),
    Refuse(Reason, String),
}

struct Route {
    distribution: Distribute<Rc<RouteBackend>>,
    canonical: Option<HeaderValue>,
    series: Rc<Series>,
    /// How errors name the route, outermost last.
    context: [String; 2],
}

#[derive(Debug)]
struct Series {
    duration: Histogram,
    frame_size: Histogram,
    statuses: StatusCounters,
}

impl Router {
    /// The size of the future that is boxed for a request, without what its client boxes.
    pub const FUTURE_BYTES: usize = size_of::<RouteFuture>();

    /// A router for what `watch` tells; `discovered` is what it tells now.
    pub fn new(
        ctx: &Rc<Context>,
        watch: &DiscoveryWatch,
        discovered: &Discovered,
        version: Version,
    ) -> Self {
        let mut updates = watch.receiver();
        updates.mark_unchanged();
        let inner = Inner {
            ctx: ctx.clone(),
            version,
            name: watch.target().to_string(),
            updates: RefCell::new(updates),
            snapshot: RefCell::new(Rc::new(Snapshot::Refuse(Reason::NoRoute, String::new()))),
            backends: RefCell::default(),
            rng: RefCell::new(ctx.rng()),
        };
        inner.apply(discovered);
        Self(Rc::new(inner))
    }

    /// The router's backends, for `/state`.
    pub fn inspect(&self) -> serde_json::Value {
        let backends = self.0.backends.borrow();
        let backends = backends.iter().map(|(key, concrete)| {
            let mut shown = concrete.inspect();
            shown["backend"] = key.backend.meta.to_string().into();
            shown["parent"] = key.parent.to_string().into();
            shown
        });
        serde_json::json!({
            "version": format!("{:?}", self.0.version),
            "backends": backends.collect::<Vec<_>>(),
        })
    }
}

impl Service<HttpRequest> for Router {
    type Response = Response<ResponseBody>;
    type Error = Error;
    type Future = LocalBoxFuture<'static, Result<Self::Response, Error>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequest) -> Self::Future {
        self.0.update();
        let snapshot = self.0.snapshot.borrow().clone();
        match &*snapshot {
            Snapshot::Route(route) => route.send(request, &self.0.rng),
            Snapshot::Refuse(reason, detail) => {
                let error = Error::new(*reason);
                let error = match detail.is_empty() {
                    true => error,
                    false => error.detail(detail.clone()),
                };
                Box::pin(ready(Err(error)))
            }
        }
    }
}

impl Inner {
    /// Takes an update in, if there is one.
    fn update(&self) {
        let mut updates = self.updates.borrow_mut();
        if !updates.has_changed().unwrap_or(false) {
            return;
        }
        // A failure keeps what is known.
        if let State::Ready(discovered) = &*updates.borrow_and_update() {
            self.apply(discovered);
        }
    }

    fn apply(&self, discovered: &Discovered) {
        let snapshot = match discovered.http(self.version) {
            RouteSource::Route(spec) => Snapshot::Route(Rc::new(self.route(discovered, spec))),
            RouteSource::NoRoute { .. } => Snapshot::Refuse(Reason::NoRoute, String::new()),
            RouteSource::Refused { filter, .. } => match filter {
                TcpFilter::Forbidden => Snapshot::Refuse(Reason::Forbidden, String::new()),
                TcpFilter::Invalid(text) => Snapshot::Refuse(Reason::InvalidPolicy, text),
            },
            RouteSource::Invalid { reason, .. } => {
                tracing::warn!(target = %self.name, %reason, "invalid client policy");
                Snapshot::Refuse(Reason::InvalidPolicy, String::new())
            }
        };
        *self.snapshot.borrow_mut() = Rc::new(snapshot);
        // Only backends of the present route are kept.
        let mut backends = self.backends.borrow_mut();
        backends.retain(|(_, concrete)| Rc::strong_count(concrete) > 1);
    }

    fn route(&self, discovered: &Discovered, spec: RouteSpec) -> Route {
        let grpc = matches!(discovered.policy.protocol, Protocol::Grpc(_));
        let families = match grpc {
            true => &self.ctx.families.outbound.grpc,
            false => &self.ctx.families.outbound.http,
        };
        let labels = RouteFamilies::route_labels(&spec.parent, &spec.route, "");
        let labels = LabelSet::from(labels);
        let series = Series {
            duration: families.request_duration.get(labels.clone()),
            frame_size: families.request_frame_size.get(labels.clone()),
            statuses: StatusCounters::new(&families.request_statuses, labels, grpc),
        };
        let backend = |backend: &Backend| {
            let labels = RouteFamilies::backend_labels(&spec.parent, &spec.route, &backend.meta);
            let labels = LabelSet::from(labels);
            let statuses = StatusCounters::new(&families.backend_statuses, labels.clone(), grpc);
            let concrete = self.concrete(&spec.parent, backend);
            let backend = RouteBackend::new(concrete, families, statuses, labels, &backend.meta);
            Rc::new(backend)
        };
        let logical = spec.logical.as_deref().unwrap_or(&self.name);
        Route {
            distribution: match &spec.distribution {
                Distribution::Empty => Distribute::Empty,
                Distribution::FirstAvailable(backends) => {
                    Distribute::First(backends.iter().map(backend).collect())
                }
                Distribution::RandomAvailable(backends) => {
                    let weighted = backends.iter().map(|(b, weight)| (backend(b), *weight));
                    Distribute::Random(weighted.collect())
                }
            },
            canonical: spec
                .canonical_header
                .and_then(|value| HeaderValue::try_from(value).ok()),
            series: Rc::new(series),
            context: [
                format!("route {}", spec.route),
                format!("logical service {logical}"),
            ],
        }
    }

    fn concrete(&self, parent: &Arc<Meta>, backend: &Backend) -> Rc<Concrete> {
        let key = ConcreteKey {
            parent: parent.clone(),
            backend: backend.clone(),
            version: self.version,
        };
        let mut backends = self.backends.borrow_mut();
        if let Some((_, concrete)) = backends.iter().find(|(known, _)| *known == key) {
            return concrete.clone();
        }
        let concrete = Rc::new(Concrete::new(&self.ctx, &key));
        // Most routers have one.
        backends.reserve_exact(1);
        backends.push((key, concrete.clone()));
        concrete
    }
}

impl Route {
    /// Sends a request. An endpoint that is ready has it when this returns.
    fn send(
        self: &Rc<Self>,
        mut request: HttpRequest,
        rng: &RefCell<SmallRng>,
    ) -> LocalBoxFuture<'static, Result<Response<ResponseBody>, Error>> {
        let start = Instant::now();
        if let Some(canonical) = &self.canonical {
            set_canonical(request.headers_mut(), canonical);
        }
        request.body_mut().observe(&self.series, start);
        let chosen = self.choose(&mut rng.borrow_mut());
        match chosen {
            Ok(backend) => Box::pin(RouteFuture {
                sent: backend.send(request, start),
                route: self.clone(),
                start,
            }),
            Err(error) => {
                let mut result = Err(error);
                self.finish(start, &mut result);
                Box::pin(ready(result))
            }
        }
    }

    fn finish(&self, start: Instant, result: &mut Result<Response<ResponseBody>, Error>) {
        let series = &self.series;
        match result {
            Ok(response) => response.body_mut().observe(series.clone(), start),
            Err(error) => {
                series.statuses.count(Status::of_error(error));
                series.duration.observe_duration(start.elapsed());
                let [route, logical] = self.context.clone();
                error.add_context(route);
                error.add_context(logical);
            }
        }
    }

    fn choose(&self, rng: &mut SmallRng) -> Result<&Rc<RouteBackend>, Error> {
        let unavailable = |backend: &Rc<RouteBackend>| backend.concrete.unavailable();
        self.distribution.choose(unavailable, rng).map_err(|cause| {
            let cause = cause.unwrap_or(Unavailable::NoEndpoints);
            Error::new(Reason::Unavailable(cause))
        })
    }
}

pin_project! {
    /// A request that a backend has.
    struct RouteFuture {
        #[pin]
        sent: BackendFuture,
        route: Rc<Route>,
        start: Instant,
    }
}

impl Future for RouteFuture {
    type Output = Result<Response<ResponseBody>, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut polled = this.sent.poll(cx);
        if let Poll::Ready(result) = &mut polled {
            this.route.finish(*this.start, result);
        }
        polled
    }
}

/// Counts a route's requests.
impl ObserveRequest for Series {
    fn data(&self, _: &ObservedRequest, len: usize, _: &Now) {
        self.frame_size.observe(len as u64);
    }
}

/// Counts a route's responses.
impl ObserveResponse for Series {
    fn end(&self, exchange: &ObservedResponse<'_>, end: BodyEnd<'_>, now: &Now) {
        let duration = now.get().saturating_duration_since(exchange.start);
        self.duration.observe_duration(duration);
        self.statuses.count(Status::of(exchange, end));
    }
}

/// Header names that a route sets.
fn set_canonical(headers: &mut HeaderMap, value: &HeaderValue) {
    headers.insert(HeaderName::from_static("l5d-dst-canonical"), value.clone());
}
