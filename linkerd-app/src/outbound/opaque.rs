//! Stage 4 of connections that are not HTTP: bytes, relayed to an endpoint.
//!
//! - **Waits for** an endpoint, at most for the failfast timeout of the TCP queue.
//! - **Fails as** the balancer or the connection fails, `Forbidden`, `InvalidBackend`, `InvalidPolicy`: the connection is
//!   closed.
//! - **Metrics**: `outbound_tcp_route_*`, `outbound_tcp_balancer_*`.

use super::{
    context::Context,
    router::{Refusal, Router, Routes},
    tcp_route::{RoutedConnection, TcpKind, TcpRouteService, TcpRoutes},
};
use crate::server::RelayEnd;
use linkerd_profiles::{Discovered, DiscoveryWatch, RouteSource, Target};
use linkerd_proxy_core::{Error, transport::Io};
use serde_json::Value;
use std::rc::Rc;
use tower_service::Service;

/// The opaque connections of one target.
pub struct Opaque {
    ctx: Rc<Context>,
    router: Router<OpaqueRoutes>,
}

/// The routes of opaque connections. A request asks for a connection.
pub struct OpaqueRoutes(TcpRoutes);

impl Opaque {
    /// The opaque connections to the target of `watch`; `discovered` is its current policy.
    pub fn new(ctx: &Rc<Context>, watch: &DiscoveryWatch, discovered: &Discovered) -> Self {
        let routes = OpaqueRoutes(TcpRoutes::new(ctx, watch.target(), TcpKind::Opaque));
        Self {
            ctx: ctx.clone(),
            router: Router::new(watch, discovered, routes),
        }
    }

    /// A connection to an endpoint.
    pub async fn connect(&self) -> Result<RoutedConnection, Error> {
        self.router.clone().call(()).await
    }

    /// Relays a connection until both sides have ended, to `server` or to a new connection.
    pub async fn relay(
        &self,
        mut io: Io,
        server: Option<RoutedConnection>,
    ) -> Result<RelayEnd, Error> {
        let server = match server {
            Some(server) => server,
            None => self.connect().await?,
        };
        Ok(server.relay(&mut io, &self.ctx.pipes).await)
    }

    /// The backends, for `/state`.
    pub fn inspect(&self) -> Value {
        self.router.inspect()
    }
}

impl Routes for OpaqueRoutes {
    type Request = ();
    type Response = RoutedConnection;
    type Snapshot = TcpRouteService;

    fn snapshot(self: &Rc<Self>, discovered: &Discovered) -> Result<TcpRouteService, Refusal> {
        match (discovered.opaque(), self.0.target()) {
            (RouteSource::Route(spec), _) => Ok(self.0.route(&spec, "")),
            // No route for opaque traffic: the connection goes to its original destination.
            (_, Target::Addr(addr)) if discovered.policy.invalid.is_none() => {
                Ok(self.0.original(*addr))
            }
            (source, target) => Err(Refusal::of(source, &target.to_string())),
        }
    }

    fn replaced(&self, _: Option<&TcpRouteService>) {
        self.0.forget_unused(|_| false);
    }

    fn inspect(&self, _: Option<&TcpRouteService>) -> Value {
        self.0.inspect()
    }
}
