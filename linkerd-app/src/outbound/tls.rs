//! Stage 4 of TLS connections that are passed through: a route by the server name (SNI).
//!
//! - **Waits for** an endpoint, at most for the failfast timeout of the TCP queue.
//! - **Fails as** `NoRoute`, and as opaque connections do: the connection is closed.
//! - **Metrics**: `outbound_tls_route_*`, `outbound_tls_balancer_*`.

use super::{
    backends::BackendKey,
    context::Context,
    host_routes::HostRoutes,
    router::{Refusal, Router, Routes, no_route},
    tcp_route::{RoutedConnection, TcpKind, TcpRouteService, TcpRoutes},
};
use crate::server::RelayEnd;
use futures::future::LocalBoxFuture;
use linkerd_profiles::{Discovered, DiscoveryWatch, TlsRouting};
use linkerd_proxy_core::{Error, transport::Io};
use serde_json::{Value, json};
use std::{
    rc::Rc,
    task::{Context as TaskContext, Poll},
};
use tower_service::Service;

/// The TLS connections of one target.
pub struct TlsConnections {
    ctx: Rc<Context>,
    router: Router<TlsRoutes>,
}

/// The routes of TLS connections. A request is a server name.
pub struct TlsRoutes(TcpRoutes);

/// The routes of one policy, each built for its first connection.
pub struct SniChoice {
    routing: TlsRouting,
    make: Rc<TlsRoutes>,
    /// By the index of the route.
    routes: Box<[Option<TcpRouteService>]>,
    /// In place of `routes`, if metrics have hostname labels.
    of_hosts: HostRoutes<TcpRouteService>,
}

impl TlsConnections {
    /// The TLS connections to the target of `watch`; `discovered` is its current policy.
    pub fn new(ctx: &Rc<Context>, watch: &DiscoveryWatch, discovered: &Discovered) -> Self {
        let routes = TlsRoutes(TcpRoutes::new(ctx, watch.target(), TcpKind::Tls));
        Self {
            ctx: ctx.clone(),
            router: Router::new(watch, discovered, routes),
        }
    }

    /// Relays a connection for a server name until both sides have ended.
    pub async fn relay(&self, mut io: Io, server_name: String) -> Result<RelayEnd, Error> {
        let server = self.router.clone().call(server_name).await?;
        Ok(server.relay(&mut io, &self.ctx.pipes).await)
    }

    /// The routes and backends, for `/state`.
    pub fn inspect(&self) -> Value {
        self.router.inspect()
    }
}

impl Routes for TlsRoutes {
    type Request = String;
    type Response = RoutedConnection;
    type Snapshot = SniChoice;

    fn snapshot(self: &Rc<Self>, discovered: &Discovered) -> Result<SniChoice, Refusal> {
        match discovered.tls() {
            Ok(routing) => Ok(SniChoice {
                routes: routing.table.routes().iter().map(|_| None).collect(),
                of_hosts: HostRoutes::default(),
                routing,
                make: self.clone(),
            }),
            Err(invalid) => {
                let target = self.0.target().to_string();
                Err(Refusal::invalid(&invalid.reason, &target))
            }
        }
    }

    fn replaced(&self, present: Option<&SniChoice>) {
        let is_named = |key: &BackendKey| present.is_some_and(|routes| routes.names(key));
        self.0.forget_unused(is_named);
    }

    fn inspect(&self, present: Option<&SniChoice>) -> Value {
        json!({
            "routes": present.map(|routes| routes.routing.table.routes().len()),
            "backends": self.0.inspect(),
        })
    }
}

impl SniChoice {
    /// Whether a route names the backend, even if it is not built.
    fn names(&self, key: &BackendKey) -> bool {
        let mut routes = self.routing.table.routes().iter();
        self.routing.parent == key.parent
            && routes.any(|route| {
                let mut backends = route.distribution.backends();
                backends.any(|backend| *backend == key.backend)
            })
    }
}

impl Service<String> for SniChoice {
    type Response = RoutedConnection;
    type Error = Error;
    type Future = LocalBoxFuture<'static, Result<RoutedConnection, Error>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, server_name: String) -> Self::Future {
        let Some(index) = self.routing.table.find(&server_name) else {
            let target = self.make.0.target().to_string();
            let error = no_route(self.routing.logical.as_ref(), &target, &self.routing.parent);
            let error = error.context(format!("server name {server_name}"));
            return Box::pin(std::future::ready(Err(error)));
        };
        let Self {
            routing,
            make,
            routes,
            of_hosts,
        } = self;
        let new_route = |hostname: &str| {
            let spec = routing.spec(&routing.table.routes()[index]);
            make.0.route(&spec, hostname)
        };
        if make.0.hostname_labels() {
            return of_hosts.get(index, &server_name, new_route).call(());
        }
        routes[index].get_or_insert_with(|| new_route("")).call(())
    }
}
