//! Stage 5: a backend of a route.
//!
//! A [`Concrete`] backend is shared by the routes that use it, and survives updates that still do. What a route counts of
//! its backend is the route's own ([`RouteBackend`]).

use super::{
    balance::{self, Target},
    context::Context,
    endpoint::{EndpointBody, EndpointService, HttpRequest, NewEndpoint, OnlyEndpoint},
    status::{Status, StatusCounters},
};
use crate::{
    exchange::send_to_only,
    metrics::{RouteFamilies, StackFamilies, backend_labels},
};
use futures::{
    FutureExt, TryFutureExt,
    future::{Either, ready},
};
use http::{HeaderMap, Response, Version};
use linkerd_balance::{Balance, LoadHandle};
use linkerd_profiles::{Backend, Dispatcher, Meta, PeakEwma};
use linkerd_proxy_core::{
    Error, NewService, Reason, Unavailable,
    http::{End, Observe, Observed, Progress},
    metrics::{Counter, Histogram, LabelSet, Labels},
};
use std::{net::SocketAddr, rc::Rc, sync::Arc};
use tokio::time::Instant;

/// The body of a backend's response.
pub type BackendBody = Observed<MeasuredBody, BackendObserver>;

/// The body of an endpoint's response, which ends the measurement of its load.
type MeasuredBody = Observed<EndpointBody, Measure>;

/// A backend as it is reached, whoever uses it.
pub struct Concrete {
    kind: Kind,
    /// How errors name it.
    name: String,
    _alive: Alive,
}

enum Kind {
    Balance(Balance<SocketAddr, EndpointService>),
    /// One endpoint, asked directly: what it refuses fails at once.
    Forward(SocketAddr, OnlyEndpoint),
    Fail(String),
}

/// What a concrete backend is made for.
#[derive(Clone, Debug)]
pub struct ConcreteKey {
    /// The resource that the traffic was meant for.
    pub parent: Arc<Meta>,
    /// The backend.
    pub backend: Backend,
    /// The version that the application speaks.
    pub version: Version,
}

impl PartialEq for ConcreteKey {
    fn eq(&self, other: &Self) -> bool {
        self.parent == other.parent
            && self.version == other.version
            && self.backend == other.backend
    }
}

impl Concrete {
    /// Makes the backend. One that cannot be made fails its requests and nothing else.
    pub fn new(ctx: &Rc<Context>, key: &ConcreteKey) -> Self {
        let (kind, name, protocol) = match &key.backend.dispatcher {
            Dispatcher::Balance { path, load } => {
                let authority: Arc<str> = path.strip_suffix(":80").unwrap_or(path).into();
                let new_endpoint = NewEndpoint::new(ctx, key.version, Some(authority));
                let target = Target {
                    path,
                    load: *load,
                    queue: ctx.config.outbound.http_queue,
                    families: &ctx.families.outbound.http_balancer,
                    labels: backend_labels(&key.parent, &key.backend.meta),
                };
                let kind = match balance::new_balance(ctx, target, new_endpoint) {
                    Ok(balance) => Kind::Balance(balance),
                    Err(error) => Kind::Fail(error.to_string()),
                };
                (kind, path.clone(), "balance")
            }
            Dispatcher::Forward(endpoint) => {
                let name = endpoint.addr.to_string();
                (forward(ctx, key, endpoint), name, "forward")
            }
            Dispatcher::Fail(message) => (Kind::Fail(message.clone()), String::new(), "fail"),
        };
        let labels = Labels::new()
            .with("direction", "outbound")
            .with("protocol", "http")
            .with("name", protocol);
        Self {
            kind,
            name,
            _alive: Alive::new(&ctx.families.stack, labels),
        }
    }

    /// Why a request would be refused now, if it would.
    pub fn unavailable(&self) -> Option<Unavailable> {
        match &self.kind {
            Kind::Balance(balance) => balance.unavailable(),
            Kind::Forward(..) | Kind::Fail(_) => None,
        }
    }

    /// The backend's state, for `/state`.
    pub fn inspect(&self) -> serde_json::Value {
        match &self.kind {
            Kind::Balance(balance) => serde_json::json!({
                "destination": self.name, "balancer": balance.inspect(),
            }),
            Kind::Forward(addr, service) => {
                use linkerd_proxy_core::Availability;
                serde_json::json!({
                    "forward": addr.to_string(),
                    "state": service.state().name(),
                    "connections": service.inspect(),
                })
            }
            Kind::Fail(message) => serde_json::json!({ "fails": message }),
        }
    }

    /// Sends a request. An endpoint that is ready has it when this returns.
    fn send(
        self: &Rc<Self>,
        request: HttpRequest,
    ) -> impl Future<Output = Result<Response<MeasuredBody>, Error>> + use<> {
        let this = self.clone();
        let measured = |response: Response<EndpointBody>, load| {
            response.map(|body| Observed::new(body, Measure(load)))
        };
        // Combinators, not async blocks: these would hold the future within twice.
        let sent = match &self.kind {
            Kind::Balance(balance) => Either::Left(
                balance
                    .send(request)
                    .map_ok(move |sent| measured(sent.response, Some(sent.load))),
            ),
            Kind::Forward(_, service) => {
                let response = send_to_only(service.clone(), request);
                let response = response.map_ok(move |response| measured(response, None));
                Either::Right(response.boxed_local())
            }
            Kind::Fail(message) => {
                let error = Error::new(Reason::InvalidBackend).detail(message.clone());
                Either::Right(ready(Err(error)).boxed_local())
            }
        };
        sent.map_err(move |error| this.in_context(error))
    }

    fn in_context(&self, error: Error) -> Error {
        let error = match error.peer_addr() {
            Some(peer) => error.context(format!("endpoint {peer}")),
            None => error,
        };
        error.context(self.name.clone())
    }
}

/// HTTP/1 is dialled for each request, so that a refusal is told at once. HTTP/2 must have a connection first: the
/// request waits for it as it would at a balancer.
fn forward(
    ctx: &Rc<Context>,
    key: &ConcreteKey,
    endpoint: &Arc<linkerd_profiles::Endpoint>,
) -> Kind {
    let new_endpoint = NewEndpoint::new(ctx, key.version, None);
    if !new_endpoint.speaks_http2(endpoint) {
        return Kind::Forward(endpoint.addr, new_endpoint.only(endpoint));
    }
    let service = new_endpoint.new_service(endpoint.clone());
    let target = Target {
        path: "",
        load: PeakEwma::default(),
        queue: ctx.config.outbound.http_queue,
        families: &ctx.families.outbound.http_balancer,
        labels: backend_labels(&key.parent, &key.backend.meta),
    };
    Kind::Balance(balance::new_static(ctx, endpoint.addr, service, target))
}

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

    /// Sends a request. `progress` tells when its body has ended; without one it had ended at the `start`.
    pub fn send(
        self: &Rc<Self>,
        request: HttpRequest,
        start: Instant,
        progress: Option<Rc<Progress>>,
    ) -> impl Future<Output = Result<Response<BackendBody>, Error>> + use<> {
        self.series.requests.incr();
        let this = self.clone();
        self.concrete.send(request).map(move |sent| {
            let series = &this.series;
            let response = sent.map_err(|error| {
                series.statuses.count(Status::of_error(&error));
                error.context(this.context.clone())
            })?;
            let observer = BackendObserver {
                series: series.clone(),
                status: Status::of_response(&response, series.statuses.is_grpc()),
                start,
                progress,
            };
            Ok(response.map(|body| Observed::new(body, observer)))
        })
    }
}

/// Measures until the first frame of a response's body.
#[derive(Debug)]
pub struct Measure(Option<LoadHandle>);

impl Observe for Measure {
    fn data(&mut self, _: usize) {
        self.0 = None;
    }

    fn end(&mut self, _: End<'_>) {
        self.0 = None;
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
    fn data(&mut self, len: usize) {
        self.series.frame_size.observe(len as u64);
    }

    fn end(&mut self, end: End<'_>) {
        // A response that ends before its request took no time.
        let since = match &self.progress {
            None => Some(self.start),
            Some(progress) => progress.ended.get(),
        };
        let duration = since.map(|since| since.elapsed()).unwrap_or_default();
        self.series.duration.observe_duration(duration);
        self.series.statuses.count(self.status.at_end(end));
    }
}

/// Counts a stack as built, and as dropped when it is.
#[derive(Debug)]
pub struct Alive(Counter);

impl Alive {
    /// Counts a stack with these labels.
    pub fn new(families: &StackFamilies, labels: Labels) -> Self {
        families.created.get(labels.clone()).incr();
        Self(families.dropped.get(labels))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.incr();
    }
}

/// Header names that a route sets.
pub fn set_canonical(headers: &mut HeaderMap, value: &http::HeaderValue) {
    headers.insert(
        http::HeaderName::from_static("l5d-dst-canonical"),
        value.clone(),
    );
}
