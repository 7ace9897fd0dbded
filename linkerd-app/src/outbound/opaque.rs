//! Stages 4 to 8 of connections that are not HTTP: bytes, relayed to an endpoint.
//!
//! - **Waits for** an endpoint, at most for the failfast timeout of the TCP queue.
//! - **Fails as** what the balancer or the connection fails as, `Forbidden`, `InvalidPolicy`: the connection is closed.
//! - **Metrics**: `outbound_tcp_route_*`, `outbound_tcp_balancer_*`.

use super::{
    balance::{self, Target},
    connect::Connect,
    context::Context,
    distribute::Distribute,
    lazy::{Lazy, NewLazy},
};
use crate::metrics::{RouteFamilies, backend_labels};
use futures::{FutureExt, future::LocalBoxFuture};
use linkerd_balance::Balance;
use linkerd_profiles::{
    Backend, Discovered, Dispatcher, Distribution, Endpoint, Meta, RouteSource, RouteSpec,
    TcpFilter,
};
use linkerd_proxy_core::{
    Availability, EndpointState, Error, Failed, NewService, Reason, Unavailable,
    metrics::{Counter, Family, Labels},
    redial::Redial,
    transport::{Duplex, Io, relay},
};
use std::{
    cell::RefCell,
    net::SocketAddr,
    rc::Rc,
    sync::Arc,
    task::{Context as TaskContext, Poll},
};
use tower_service::Service;

/// The opaque backends of one target.
pub struct Opaque {
    ctx: Rc<Context>,
    backends: RefCell<Vec<(Backend, Rc<Concrete>)>>,
}

enum Concrete {
    Balance(Balance<SocketAddr, Lazy<NewTcpEndpoint>>),
    Forward(Connect),
    Fail(String),
}

impl Opaque {
    /// Without backends: they are made when a route uses them.
    pub fn new(ctx: &Rc<Context>) -> Self {
        Self {
            ctx: ctx.clone(),
            backends: RefCell::default(),
        }
    }

    /// Relays a connection until both sides have ended.
    pub async fn relay<I>(
        &self,
        discovered: &Discovered,
        original: Option<SocketAddr>,
        mut io: Io<I>,
    ) -> Result<(), Error>
    where
        I: Duplex,
    {
        let _drain = self.ctx.drain.watch();
        let mut series = None;
        let mut server = match (discovered.opaque(), original) {
            (RouteSource::Route(spec), _) => {
                let open = self.route_series(&spec);
                let dialled = self.dial(&spec).await;
                let (server, open) = open.check(dialled, &spec, discovered)?;
                series = Some(open);
                server
            }
            (RouteSource::Refused { filter, .. }, _) => {
                return Err(match filter {
                    TcpFilter::Forbidden => Error::new(Reason::Forbidden),
                    TcpFilter::Invalid(text) => Error::new(Reason::InvalidPolicy).detail(text),
                });
            }
            (_, Some(addr)) if discovered.policy.invalid.is_none() => {
                // No route is for such traffic: it goes where it was going.
                let endpoint = Arc::new(Endpoint::new(addr));
                self.ctx.connect(&endpoint, None).call(()).await?
            }
            (RouteSource::Invalid { reason, .. }, _) => {
                return Err(Error::new(Reason::InvalidPolicy).detail(reason));
            }
            (RouteSource::NoRoute { .. }, _) => return Err(Reason::NoRoute.into()),
        };
        match relay(&mut io, &mut server, &self.ctx.pipes).await {
            Ok((sent, received)) => tracing::debug!(sent, received, "opaque connection ended"),
            Err(error) => tracing::debug!(%error, "opaque connection broke off"),
        }
        if let Some(series) = series {
            series.close("");
        }
        Ok(())
    }

    /// The backends, for `/state`.
    pub fn inspect(&self) -> serde_json::Value {
        let backends = self.backends.borrow();
        let shown = backends
            .iter()
            .map(|(backend, concrete)| match &**concrete {
                Concrete::Balance(balance) => serde_json::json!({
                    "backend": backend.meta.to_string(), "balancer": balance.inspect(),
                }),
                Concrete::Forward(connect) => serde_json::json!({
                    "backend": backend.meta.to_string(), "forward": connect.addr.to_string(),
                }),
                Concrete::Fail(message) => serde_json::json!({ "fails": message }),
            });
        shown.collect()
    }

    async fn dial(&self, spec: &RouteSpec) -> Result<Io, Error> {
        let concrete = |backend: &Backend| self.concrete(&spec.parent, backend);
        let distribution = match &spec.distribution {
            Distribution::Empty => Distribute::Empty,
            Distribution::FirstAvailable(backends) => {
                Distribute::First(backends.iter().map(concrete).collect())
            }
            Distribution::RandomAvailable(backends) => {
                let weighted = backends.iter().map(|(b, weight)| (concrete(b), *weight));
                Distribute::Random(weighted.collect())
            }
        };
        self.forget_unused();
        let chosen = distribution
            .choose(|concrete| concrete.unavailable(), &mut self.ctx.rng())
            .map_err(|cause| {
                let cause = cause.unwrap_or(Unavailable::NoEndpoints);
                Error::new(Reason::Unavailable(cause))
            })?;
        chosen.connect().await
    }

    /// Only backends of the present route are kept.
    fn forget_unused(&self) {
        let mut backends = self.backends.borrow_mut();
        backends.retain(|(_, concrete)| Rc::strong_count(concrete) > 1);
    }

    fn concrete(&self, parent: &Arc<Meta>, backend: &Backend) -> Rc<Concrete> {
        let mut backends = self.backends.borrow_mut();
        if let Some((_, concrete)) = backends.iter().find(|(known, _)| known == backend) {
            return concrete.clone();
        }
        let concrete = Rc::new(Concrete::new(&self.ctx, parent, backend));
        backends.push((backend.clone(), concrete.clone()));
        concrete
    }

    fn route_series(&self, spec: &RouteSpec) -> RouteSeries {
        let outbound = &self.ctx.families.outbound;
        let labels = RouteFamilies::route_labels(&spec.parent, &spec.route, "");
        outbound.tcp_route_open.get(labels.clone()).incr();
        RouteSeries {
            close: outbound.tcp_route_close.clone(),
            labels,
        }
    }
}

/// What counts the connections of a route.
struct RouteSeries {
    close: Family<Counter>,
    labels: Labels,
}

impl RouteSeries {
    /// Counts a connection that got no further as closed.
    fn check(
        self,
        dialled: Result<Io, Error>,
        spec: &RouteSpec,
        discovered: &Discovered,
    ) -> Result<(Io, Self), Error> {
        let error = match dialled {
            Ok(io) => return Ok((io, self)),
            Err(error) => error,
        };
        self.close(match error.reason() {
            Reason::Forbidden => "forbidden",
            Reason::InvalidBackend => "invalid_backend",
            Reason::InvalidPolicy => "invalid_policy",
            _ => "unexpected",
        });
        let logical = match &spec.logical {
            Some(logical) => logical.to_string(),
            None => discovered.target.to_string(),
        };
        Err(error.context(format!("logical service {logical}")))
    }

    fn close(self, error: &str) {
        self.close.get(self.labels.with("error", error)).incr();
    }
}

impl Concrete {
    fn new(ctx: &Rc<Context>, parent: &Arc<Meta>, backend: &Backend) -> Self {
        match &backend.dispatcher {
            Dispatcher::Forward(endpoint) => Self::Forward(ctx.connect(endpoint, None)),
            Dispatcher::Fail(message) => Self::Fail(message.clone()),
            Dispatcher::Balance { destination, load } => {
                let target = Target {
                    load: *load,
                    queue: ctx.config.outbound.tcp_queue,
                    families: &ctx.families.outbound.tcp_balancer,
                    labels: backend_labels(parent, &backend.meta)
                        .with("logical", destination)
                        .with("concrete", destination)
                        .into(),
                };
                let new = Rc::new(NewTcpEndpoint {
                    ctx: ctx.clone(),
                    authority: destination.clone().into(),
                });
                let new_endpoint = move |endpoint| Lazy::new(new.clone(), endpoint);
                match balance::new_balance(ctx, destination, target, new_endpoint) {
                    Ok(balance) => Self::Balance(balance),
                    Err(error) => Self::Fail(error.to_string()),
                }
            }
        }
    }

    fn unavailable(&self) -> Option<Unavailable> {
        match self {
            Self::Balance(balance) => balance.unavailable(),
            Self::Forward(_) | Self::Fail(_) => None,
        }
    }

    async fn connect(&self) -> Result<Io, Error> {
        match self {
            // The connection is the response: what is measured is how long connecting takes.
            Self::Balance(balance) => Ok(balance.clone().call(()).await?.response),
            Self::Forward(connect) => connect.clone().call(()).await,
            Self::Fail(message) => Err(Error::new(Reason::InvalidBackend).detail(message.clone())),
        }
    }
}

/// An endpoint of opaque connections.
///
/// It is tried again when its backoff has passed, by a connection that is wanted: a probe of its own would show in the
/// log of a server that counts broken handshakes.
#[derive(Clone)]
struct TcpEndpoint {
    connect: Connect,
    redial: Rc<Redial>,
}

/// Makes the endpoints of a backend.
struct NewTcpEndpoint {
    ctx: Rc<Context>,
    authority: Arc<str>,
}

impl NewService<Arc<Endpoint>> for NewTcpEndpoint {
    type Service = TcpEndpoint;

    fn new_service(&self, endpoint: Arc<Endpoint>) -> TcpEndpoint {
        let redial = Redial::new(self.ctx.config.outbound.connect.backoff);
        TcpEndpoint {
            connect: self.ctx.connect(&endpoint, Some(&self.authority)),
            redial: Rc::new(redial),
        }
    }
}

impl NewLazy for NewTcpEndpoint {
    fn is_ready(&self, _: &Endpoint) -> bool {
        true
    }

    fn inspect(&self) -> serde_json::Value {
        serde_json::Value::Null
    }
}

impl Availability for TcpEndpoint {
    fn state(&self) -> EndpointState {
        self.redial.state().unwrap_or(EndpointState::Ready)
    }

    fn wanted(&self) {
        self.redial.wanted();
    }
}

impl Service<()> for TcpEndpoint {
    type Response = Io;
    type Error = Failed<()>;
    type Future = LocalBoxFuture<'static, Result<Io, Failed<()>>>;

    fn poll_ready(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), Failed<()>>> {
        if !self.redial.is_down() {
            return Poll::Ready(Ok(()));
        }
        self.redial.register(cx);
        Poll::Pending
    }

    fn call(&mut self, (): ()) -> Self::Future {
        let (mut connect, redial) = (self.connect.clone(), self.redial.clone());
        async move {
            match connect.call(()).await {
                Ok(io) => {
                    redial.succeeded();
                    Ok(io)
                }
                Err(error) => {
                    if redial.failed(&error) {
                        let redial = Rc::downgrade(&redial);
                        tokio::task::spawn_local(async move {
                            if let Some(redial) = redial.upgrade() {
                                redial.due().await;
                                redial.forgive();
                            }
                        });
                    }
                    let again = error.reason().retry() == linkerd_proxy_core::reason::Retry::Yes;
                    Err(Failed {
                        error,
                        request: again.then_some(()),
                    })
                }
            }
        }
        .boxed_local()
    }
}
