use crate::endpoint::Endpoint;
use linkerd_api_proto::destination::WeightedAddr;
use linkerd_api_proto::meta::{Metadata, Resource, metadata};
use linkerd_api_proto::outbound::backend::{
    Kind as BackendKind,
    balance_p2c::{Load, PenaltyPeakEwma},
};
use linkerd_api_proto::outbound::{
    Backend, FailureAccrual, OutboundPolicy, ProxyProtocol, proxy_protocol,
};
use std::time::Duration;

mod backend;
mod breaker;
mod dispatch;
mod duration;
mod route;
mod route_filter;
mod route_limits;
mod route_match;
mod routes;
mod tls_route;

use backend::{balancer, new_backend, peak_ewma};
pub use breaker::Breaker;
use duration::duration;
pub use route::{Route, RouteRule};
pub use route_filter::{HeaderChanges, RouteFilter};
pub use route_limits::{RouteRetry, RouteTimeouts};
pub use route_match::RouteMatch;
pub use tls_route::TlsRoute;

use dispatch::{Dispatch, Weighted};

/// Builds the policies that a control plane commonly sends; [`Policy::build`] returns the message, whose fields can be
/// changed further.
///
/// ```
/// use linkerd_control::{Controller, Policy};
///
/// let controller = Controller::new();
/// controller.policy("10.0.0.1:80").set(Policy::balance("web", 80).namespace("shop").http2());
/// ```
#[derive(Clone, Debug)]
pub struct Policy {
    parent: Parent,
    protocol: Protocol,
    dispatch: Dispatch,
    routes: Vec<Route>,
    tls_routes: Vec<TlsRoute>,
    request_timeout: Option<Duration>,
    failure_accrual: Option<FailureAccrual>,
    load: Load,
}

/// The protocol that a policy declares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// The proxy detects whether it is HTTP.
    #[default]
    Detect,
    /// HTTP/1.
    Http1,
    /// HTTP/2.
    Http2,
    /// gRPC.
    Grpc,
    /// Opaque bytes.
    Opaque,
    /// TLS, which is passed through.
    Tls,
}

#[derive(Clone, Debug)]
enum Parent {
    Service {
        name: String,
        namespace: String,
        port: u16,
    },
    Default(String),
}

impl Policy {
    /// Balances over the endpoints of a service in the namespace `default`.
    pub fn balance(name: impl Into<String>, port: u16) -> Self {
        Self::service(name.into(), port, Dispatch::Balance(None))
    }

    /// Splits the traffic of a service among services of the same namespace, each with name, port and weight.
    pub fn weighted<N: Into<String>>(
        name: impl Into<String>,
        port: u16,
        backends: impl IntoIterator<Item = (N, u16, u32)>,
    ) -> Self {
        Self::service(name.into(), port, Dispatch::weighted(backends))
    }

    /// Forwards to one endpoint.
    pub fn forward(endpoint: impl Into<Endpoint>) -> Self {
        let endpoint = WeightedAddr::from(endpoint.into());
        Self {
            parent: Parent::Default("endpoint".to_owned()),
            ..Self::service(String::new(), 0, Dispatch::Forward(Box::new(endpoint)))
        }
    }

    /// Discards the traffic of a service: no backends.
    pub fn empty(name: impl Into<String>, port: u16) -> Self {
        Self::service(name.into(), port, Dispatch::Empty)
    }

    /// Splits the traffic among services of any namespaces, each with name, namespace, port and weight.
    pub(crate) fn split(
        name: &str,
        port: u16,
        backends: impl IntoIterator<Item = (String, String, u16, u32)>,
    ) -> Self {
        Self::service(name.to_owned(), port, Dispatch::among(backends))
    }

    fn service(name: String, port: u16, dispatch: Dispatch) -> Self {
        Self {
            parent: Parent::Service {
                name,
                namespace: "default".to_owned(),
                port,
            },
            protocol: Protocol::Detect,
            dispatch,
            routes: Vec::new(),
            tls_routes: Vec::new(),
            request_timeout: None,
            failure_accrual: None,
            load: peak_ewma(),
        }
    }

    /// Sets the service's namespace.
    #[must_use]
    pub fn namespace(mut self, ns: impl Into<String>) -> Self {
        if let Parent::Service { namespace, .. } = &mut self.parent {
            *namespace = ns.into();
        }
        self
    }

    /// Balances over another destination path than the service's own. The path is not checked.
    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.dispatch = Dispatch::Balance(Some(path.into()));
        self
    }

    /// Sets the protocol; the default is [`Protocol::Detect`].
    #[must_use]
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.protocol = protocol;
        self
    }

    /// Declares HTTP/1.
    #[must_use]
    pub fn http1(self) -> Self {
        self.protocol(Protocol::Http1)
    }

    /// Declares HTTP/2.
    #[must_use]
    pub fn http2(self) -> Self {
        self.protocol(Protocol::Http2)
    }

    /// Declares gRPC.
    #[must_use]
    pub fn grpc(self) -> Self {
        self.protocol(Protocol::Grpc)
    }

    /// Declares opaque bytes.
    #[must_use]
    pub fn opaque(self) -> Self {
        self.protocol(Protocol::Opaque)
    }

    /// Adds a route, which replaces the default route for every request. Opaque bytes have no routes.
    #[must_use]
    pub fn route(mut self, route: Route) -> Self {
        self.routes.push(route);
        self
    }

    /// Sets the timeout of whole requests.
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = Some(timeout);
        self
    }

    /// Sets failure accrual, which ejects endpoints.
    #[must_use]
    pub fn failure_accrual(mut self, accrual: impl Into<FailureAccrual>) -> Self {
        self.failure_accrual = Some(accrual.into());
        self
    }

    /// Sets the load estimate of all balancers; the default is peak-EWMA.
    #[must_use]
    pub fn load(mut self, load: Load) -> Self {
        self.load = load;
        self
    }

    /// Penalises endpoints that answer that they are overloaded or broken: they look as slow as `penalty`, which decays by `decay`.
    #[must_use]
    pub fn penalties(self, penalty: Duration, decay: Duration) -> Self {
        self.load(Load::PenaltyPeakEwma(PenaltyPeakEwma {
            penalty: duration(penalty),
            penalty_decay: duration(decay),
            ..Default::default()
        }))
    }

    /// Adds a route of TLS connections, and declares TLS.
    #[must_use]
    pub fn tls_route(mut self, route: TlsRoute) -> Self {
        self.protocol = Protocol::Tls;
        self.tls_routes.push(route);
        self
    }

    /// The message.
    pub fn build(&self) -> OutboundPolicy {
        use proxy_protocol::{Detect, Grpc, Http1, Http2, Kind, Opaque};
        let failure_accrual = self.failure_accrual;
        let http1 = || Http1 {
            routes: self.http_routes(),
            failure_accrual,
        };
        let http2 = || Http2 {
            routes: self.http_routes(),
            failure_accrual,
        };
        let opaque = || Opaque {
            routes: vec![self.opaque_route()],
        };
        let kind = match self.protocol {
            Protocol::Detect => Kind::Detect(Detect {
                timeout: duration(DETECT_TIMEOUT),
                opaque: Some(opaque()),
                http1: Some(http1()),
                http2: Some(http2()),
            }),
            Protocol::Http1 => Kind::Http1(http1()),
            Protocol::Http2 => Kind::Http2(http2()),
            Protocol::Grpc => Kind::Grpc(Grpc {
                routes: self.grpc_routes(),
                failure_accrual,
            }),
            Protocol::Opaque => Kind::Opaque(opaque()),
            Protocol::Tls => Kind::Tls(proxy_protocol::Tls {
                routes: self.tls_routes(),
            }),
        };
        OutboundPolicy {
            metadata: Some(self.parent.metadata()),
            protocol: Some(ProxyProtocol { kind: Some(kind) }),
        }
    }

    /// The backends of a dispatch, or else of the policy, with their weights, and whether weights are set.
    fn backends(&self, dispatch: Option<&Dispatch>) -> (Vec<(Backend, u32)>, bool) {
        let service = |service: &Weighted| {
            let parent = Parent::Service {
                name: service.name.clone(),
                namespace: service
                    .namespace
                    .clone()
                    .unwrap_or_else(|| self.parent.namespace().to_owned()),
                port: service.port,
            };
            let kind = balancer(parent.path(), self.load);
            (new_backend(parent.metadata(), kind), service.weight)
        };
        match dispatch.unwrap_or(&self.dispatch) {
            Dispatch::Empty => (Vec::new(), false),
            Dispatch::Forward(endpoint) => {
                let kind = BackendKind::Forward((**endpoint).clone());
                (vec![(new_backend(self.parent.metadata(), kind), 1)], false)
            }
            Dispatch::Balance(path) => {
                let path = path.clone().unwrap_or_else(|| self.parent.path());
                let backend = new_backend(self.parent.metadata(), balancer(path, self.load));
                (vec![(backend, 1)], false)
            }
            Dispatch::Service(only) => (vec![service(only)], false),
            Dispatch::Weighted(services) => (services.iter().map(service).collect(), true),
        }
    }
}

impl From<Policy> for OutboundPolicy {
    fn from(policy: Policy) -> Self {
        policy.build()
    }
}

impl Parent {
    fn metadata(&self) -> Metadata {
        let kind = match self {
            Self::Default(name) => metadata::Kind::Default(name.clone()),
            Self::Service {
                name,
                namespace,
                port,
            } => metadata::Kind::Resource(Resource {
                group: "core".to_owned(),
                kind: "Service".to_owned(),
                name: name.clone(),
                namespace: namespace.clone(),
                section: String::new(),
                port: (*port).into(),
            }),
        };
        Metadata { kind: Some(kind) }
    }

    fn path(&self) -> String {
        match self {
            Self::Default(name) => name.clone(),
            Self::Service {
                name,
                namespace,
                port,
            } => format!("{name}.{namespace}.svc.cluster.local:{port}"),
        }
    }

    fn namespace(&self) -> &str {
        match self {
            Self::Default(_) => "default",
            Self::Service { namespace, .. } => namespace,
        }
    }
}

// The value of a cluster's policy controller.
const DETECT_TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
