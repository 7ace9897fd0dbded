//! Stages 4 to 8 of connections that are not HTTP: bytes, relayed to an endpoint.
//!
//! - **Waits for** an endpoint, at most for the failfast timeout of the TCP queue.
//! - **Fails as** the balancer or the connection fails, `Forbidden`, `InvalidPolicy`: the connection is closed.
//! - **Metrics**: `outbound_tcp_route_*`, `outbound_tcp_balancer_*`.

mod endpoint;
mod route_metrics;

use self::{
    endpoint::NewTcpEndpoint,
    route_metrics::{RoutedConnection, TcpRouteMetricsLayer},
};
use super::{
    backends::{BackendHandle, BackendKey, BackendStatus, Backends},
    balance::{BalanceTarget, balance},
    context::Context,
    dispatch::Dispatch,
    distribute::{Distribute, RouteBackends},
    lazy::Lazy,
    router::{Refusal, RouteService, Router, Routes},
};
use crate::metrics::{RouteFamilies, backend_labels};
use linkerd_balance::Balance;
use linkerd_profiles::{
    Backend, Discovered, DiscoveryWatch, Dispatcher, Endpoint, RouteSource, RouteSpec, Target,
};
use linkerd_proxy_core::{
    Error, ObserveLayer, Shared, StageNames,
    transport::{Connect, Io, relay},
};
use serde_json::Value;
use std::{net::SocketAddr, rc::Rc, sync::Arc};
use tower::ServiceBuilder;
use tower_service::Service;

/// The opaque connections of one target.
pub struct Opaque {
    ctx: Rc<Context>,
    router: Router<OpaqueRoutes>,
}

/// The routes of opaque connections. A request asks for a connection.
pub struct OpaqueRoutes {
    ctx: Rc<Context>,
    target: Target,
    backends: Backends<OpaqueDispatch>,
}

/// Connects to the endpoints of a backend.
type OpaqueDispatch = Dispatch<Balance<SocketAddr, Lazy<NewTcpEndpoint>>, Connect>;

impl Opaque {
    /// The opaque connections of the target that `watch` watches; `discovered` is its present policy.
    pub fn new(ctx: &Rc<Context>, watch: &DiscoveryWatch, discovered: &Discovered) -> Self {
        let routes = OpaqueRoutes {
            ctx: ctx.clone(),
            target: watch.target().clone(),
            backends: Backends::default(),
        };
        Self {
            ctx: ctx.clone(),
            router: Router::new(watch, discovered, routes),
        }
    }

    /// Relays a connection until both sides have ended.
    pub async fn relay(&self, mut io: Io) -> Result<(), Error> {
        let mut server = self.router.clone().call(()).await?;
        match relay(&mut io, server.io(), &self.ctx.pipes).await {
            Ok((sent, received)) => tracing::debug!(sent, received, "opaque connection ended"),
            Err(error) => tracing::debug!(%error, "opaque connection broke off"),
        }
        Ok(())
    }

    /// The backends, for `/state`.
    pub fn inspect(&self) -> Value {
        self.router.inspect()
    }
}

impl Routes for OpaqueRoutes {
    type Request = ();
    type Response = RoutedConnection;
    type Snapshot = RouteService<Self>;

    fn snapshot(self: &Rc<Self>, discovered: &Discovered) -> Result<RouteService<Self>, Refusal> {
        match (discovered.opaque(), &self.target) {
            (RouteSource::Route(spec), _) => Ok(self.opaque_route(discovered, &spec)),
            (source @ RouteSource::Refused { .. }, _) => Err(Refusal::of(source, &self.name())),
            // No route is for such traffic: it goes where it was going.
            (_, Target::Addr(addr)) if discovered.policy.invalid.is_none() => {
                Ok(self.original(*addr))
            }
            (source, _) => Err(Refusal::of(source, &self.name())),
        }
    }

    fn replaced(&self, _: Option<&RouteService<Self>>) {
        self.backends.forget_unused(|_| false);
    }

    fn inspect(&self, _: Option<&RouteService<Self>>) -> Value {
        self.backends.inspect().into()
    }
}

impl OpaqueRoutes {
    /// Stage 4, the route.
    fn opaque_route(&self, discovered: &Discovered, spec: &RouteSpec) -> RouteService<Self> {
        let outbound = &self.ctx.families.outbound;
        let labels = RouteFamilies::route_labels(&spec.parent, &spec.route, "");
        let logical = match &spec.logical {
            Some(logical) => format!("logical service {logical}"),
            None => format!("logical service {}", discovered.target),
        };
        let backends =
            RouteBackends::new(&spec.distribution, |backend| self.backend(spec, backend));
        let stack = ServiceBuilder::new()
            .layer(ObserveLayer::new(StageNames::new([logical])))
            .layer(TcpRouteMetricsLayer::new(outbound, labels))
            .service(Distribute::new(backends, self.ctx.rng()));
        Shared::new(stack)
    }

    /// Stage 4, the way to where a connection was going.
    fn original(&self, addr: SocketAddr) -> RouteService<Self> {
        let endpoint = Arc::new(Endpoint::new(addr));
        let stack = ServiceBuilder::new()
            .map_response(RoutedConnection::without_route)
            .service(self.ctx.connect(&endpoint, None));
        Shared::new(stack)
    }

    /// Stage 5, a backend, found again when an update still uses it.
    fn backend(
        &self,
        spec: &RouteSpec,
        backend: &Backend,
    ) -> (OpaqueDispatch, Rc<dyn BackendStatus>) {
        let key = BackendKey {
            parent: spec.parent.clone(),
            backend: backend.clone(),
        };
        let backend = self.backends.get(key, |key| self.dispatch(key));
        (backend.service.clone(), backend)
    }

    /// Stage 6, the endpoints of a backend.
    fn dispatch(&self, key: &BackendKey) -> BackendHandle<OpaqueDispatch> {
        let ctx = &self.ctx;
        let (dispatch, status) = match &key.backend.dispatcher {
            Dispatcher::Fail(message) => Dispatch::failed(message),
            Dispatcher::Forward(endpoint) => {
                Dispatch::forwarded(endpoint.addr, ctx.connect(endpoint, None), None)
            }
            Dispatcher::Balance {
                destination, load, ..
            } => {
                let target = BalanceTarget {
                    load: load.clone(),
                    config: None,
                    queue: ctx.config.outbound.tcp_queue,
                    families: &ctx.families.outbound.tcp_balancer,
                    labels: backend_labels(&key.parent, &key.backend.meta)
                        .with("logical", destination)
                        .with("concrete", destination)
                        .into(),
                };
                let new_endpoint = NewTcpEndpoint::new(ctx, destination.clone());
                match balance(ctx, destination, target, new_endpoint) {
                    Ok(balance) => Dispatch::balanced(destination, balance),
                    Err(error) => Dispatch::failed(error),
                }
            }
        };
        BackendHandle::new(dispatch, status, None)
    }

    fn name(&self) -> String {
        self.target.to_string()
    }
}
