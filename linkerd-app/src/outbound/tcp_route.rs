//! Stages 4 to 7 of connections: the routes of one target, opaque or by server name.

pub(super) mod endpoint;
mod metrics;

use super::{
    backends::{BackendHandle, BackendKey, BackendStatus, Backends},
    balance::{BalanceTarget, balance},
    context::Context,
    dispatch::Dispatch,
    distribute::{Distribute, RouteBackends},
    lazy::Lazy,
    stack_counts::StackCounts,
};
use crate::metrics::{BalancerFamilies, RouteFamilies, TcpRouteFamilies, backend_labels};
use endpoint::NewTcpEndpoint;
use linkerd_balance::Balance;
use linkerd_profiles::{Backend, Dispatcher, Endpoint, RouteSpec, Target, TcpFilter};
use linkerd_proxy_core::{
    Destination, Error, ObserveLayer, Reason, Shared, StageNames,
    metrics::{LabelSet, Labels},
    transport::{Connect, Io},
};
pub use metrics::RoutedConnection;
use metrics::TcpRouteMetricsLayer;
use serde_json::Value;
use std::{net::SocketAddr, rc::Rc, sync::Arc};
use tower::{ServiceBuilder, service_fn};

/// A route of connections. Each request opens one.
pub type TcpRouteService = Shared<(), RoutedConnection, Error>;

/// The routes of one target's connections, and their backends.
pub struct TcpRoutes {
    ctx: Rc<Context>,
    target: Target,
    kind: TcpKind,
    backends: Backends<TcpDispatch>,
}

/// The kind of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpKind {
    /// Bytes of any protocol.
    Opaque,
    /// TLS that is passed through.
    Tls,
}

/// Connects to the endpoints of a backend.
type TcpDispatch = Dispatch<Balance<SocketAddr, Lazy<NewTcpEndpoint>>, Connect>;

impl TcpRoutes {
    /// Routes of connections to a target.
    pub fn new(ctx: &Rc<Context>, target: &Target, kind: TcpKind) -> Self {
        Self {
            ctx: ctx.clone(),
            target: target.clone(),
            kind,
            backends: Backends::default(),
        }
    }

    /// The target.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Stage 4: a route. Connections that its filter refuses are counted as well. `hostname` is the label of the metrics of a TLS
    /// route, or empty.
    pub fn route(&self, spec: &RouteSpec, hostname: &str) -> TcpRouteService {
        let logical = match &spec.logical {
            Some(logical) => format!("logical service {logical}"),
            None => format!("logical service {}", self.target),
        };
        let layers = ServiceBuilder::new()
            .layer(ObserveLayer::new(StageNames::new([logical])))
            .layer(TcpRouteMetricsLayer::new(
                self.families(),
                self.labels(spec, hostname),
            ));
        if let Some(filter) = spec.filter.clone() {
            let kind = self.kind;
            let refuses = move |()| std::future::ready(Err::<Io, _>(kind.refusal(&filter)));
            return Shared::new(layers.service(service_fn(refuses)));
        }
        let backends =
            RouteBackends::new(&spec.distribution, |backend| self.backend(spec, backend));
        Shared::new(layers.service(Distribute::new(backends, self.ctx.rng())))
    }

    /// Stage 4: a route to the original destination of a connection.
    pub fn original(&self, addr: SocketAddr) -> TcpRouteService {
        let endpoint = Arc::new(Endpoint::new(addr));
        let stack = ServiceBuilder::new()
            .map_response(RoutedConnection::without_route)
            .service(self.ctx.connect(&endpoint, None, None));
        Shared::new(stack)
    }

    /// Whether metrics have hostname labels.
    pub fn hostname_labels(&self) -> bool {
        self.ctx.config.outbound.hostname_labels
    }

    /// Drops the backends that no route uses, unless `is_named`.
    pub fn forget_unused(&self, is_named: impl Fn(&BackendKey) -> bool) {
        self.backends.forget_unused(is_named);
    }

    /// The backends, for `/state`.
    pub fn inspect(&self) -> Value {
        self.backends.inspect().into()
    }

    /// Stage 5: a backend; reused if an update keeps it.
    fn backend(&self, spec: &RouteSpec, backend: &Backend) -> (TcpDispatch, Rc<dyn BackendStatus>) {
        let key = BackendKey {
            parent: spec.parent.clone(),
            backend: backend.clone(),
        };
        // A change of the logical address alone keeps the backend with its labels: its endpoints and connections are the same.
        let backend = self
            .backends
            .get(key, |key| self.dispatch(key, spec.logical.as_ref()));
        (backend.service.clone(), backend)
    }

    /// Stage 6: the endpoints of a backend.
    fn dispatch(
        &self,
        key: &BackendKey,
        logical: Option<&Destination>,
    ) -> BackendHandle<TcpDispatch> {
        let ctx = &self.ctx;
        let (dispatch, status) = match (&key.backend.filter, &key.backend.dispatcher) {
            (Some(filter), _) => {
                let refusal = self.kind.refusal(filter);
                Dispatch::refused(refusal.reason(), refusal)
            }
            (None, Dispatcher::Fail(message)) => Dispatch::failed(message),
            (None, Dispatcher::Forward(endpoint)) => {
                Dispatch::forwarded(endpoint.addr, ctx.connect(endpoint, None, None), None)
            }
            (
                None,
                Dispatcher::Balance {
                    destination, load, ..
                },
            ) => {
                let (families, labels) = self.balancer_series(key, logical, destination);
                let target = BalanceTarget {
                    load: load.clone(),
                    config: None,
                    queue: ctx.config.outbound.tcp_queue,
                    families,
                    labels,
                };
                let new_endpoint =
                    NewTcpEndpoint::new(ctx, destination.clone(), self.kind.protocol());
                match balance(ctx, destination, target, new_endpoint) {
                    Ok(balance) => Dispatch::balanced(destination, balance),
                    Err(error) => Dispatch::failed(error),
                }
            }
        };
        let name = match (&key.backend.filter, &key.backend.dispatcher) {
            (Some(_), _) | (None, Dispatcher::Fail(_)) => "fail",
            (None, Dispatcher::Forward(_)) => "forward",
            (None, Dispatcher::Balance { .. }) => "balance",
        };
        let stacks = StackCounts::new(&ctx.families.stack, self.kind.protocol(), name);
        BackendHandle::new(dispatch, status, stacks.count())
    }

    fn families(&self) -> &TcpRouteFamilies {
        let outbound = &self.ctx.families.outbound;
        match self.kind {
            TcpKind::Opaque => &outbound.tcp_route,
            TcpKind::Tls => &outbound.tls_route,
        }
    }

    fn labels(&self, spec: &RouteSpec, hostname: &str) -> Labels {
        let labels = RouteFamilies::connection_labels(&spec.parent, &spec.route);
        match (self.kind, &self.target) {
            (TcpKind::Tls, _) => labels.with("hostname", hostname),
            (TcpKind::Opaque, Target::Addr(addr)) => labels
                .with("target_ip", addr.ip())
                .with("target_port", addr.port()),
            (TcpKind::Opaque, Target::Name(name)) => labels
                .with("target_ip", name.name())
                .with("target_port", name.port()),
        }
    }

    fn balancer_series(
        &self,
        key: &BackendKey,
        logical: Option<&Destination>,
        destination: &Destination,
    ) -> (&BalancerFamilies, LabelSet) {
        let outbound = &self.ctx.families.outbound;
        let concrete = |labels: Labels| labels.with("concrete", destination);
        match self.kind {
            TcpKind::Opaque => {
                let labels = backend_labels(&key.parent, &key.backend.meta);
                let labels = match logical {
                    Some(logical) => labels.with("logical", logical),
                    None => labels.with("logical", &self.target),
                };
                (&outbound.tcp_balancer, concrete(labels).into())
            }
            TcpKind::Tls => (&outbound.tls_balancer, concrete(Labels::new()).into()),
        }
    }
}

impl TcpKind {
    /// The label `protocol` of its stacks.
    fn protocol(self) -> &'static str {
        match self {
            Self::Opaque => "opaq",
            Self::Tls => "tls",
        }
    }

    /// The error of a connection that a filter refuses.
    fn refusal(self, filter: &TcpFilter) -> Error {
        let kind = match self {
            Self::Opaque => "TCP",
            Self::Tls => "TLS",
        };
        match filter {
            TcpFilter::Forbidden => {
                Error::new(Reason::Forbidden).detail(format!("forbidden {kind} route"))
            }
            TcpFilter::Invalid(text) => {
                Error::new(Reason::InvalidBackend).detail(format!("invalid {kind} backend: {text}"))
            }
        }
    }
}
