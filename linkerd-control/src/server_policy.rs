//! Policies of inbound ports.

mod authorization;
mod rate_limit;
mod route;

pub use authorization::Authorization;
pub use rate_limit::RateLimit;
pub use route::InboundRoute;

use crate::policy::Protocol;
use linkerd_api_proto::inbound::proxy_protocol::{Detect, Grpc, Http1, Http2, Kind, Opaque, Tls};
use linkerd_api_proto::inbound::{HttpLocalRateLimit, HttpRoute, ProxyProtocol, Server};
use linkerd_api_proto::prost_types::Duration as WireDuration;

/// Builds the policies of inbound ports that a control plane commonly sends; [`ServerPolicy::build`] returns the message,
/// whose fields can be changed further.
///
/// ```
/// use linkerd_control::{Authorization, Controller, ServerPolicy};
///
/// let controller = Controller::new();
/// let web = Authorization::all("web").identity("web.shop.serviceaccount.identity.linkerd.cluster.local");
/// controller.server(8080).set(ServerPolicy::new("app").http1().authorize(web));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ServerPolicy {
    group: String,
    kind: String,
    name: String,
    protocol: Protocol,
    authorizations: Vec<Authorization>,
    routes: Vec<InboundRoute>,
    rate_limit: Option<RateLimit>,
}

impl ServerPolicy {
    /// The policy of a `Server`: its protocol is detected, and it admits no client until authorizations are added.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            group: POLICY_GROUP.to_owned(),
            kind: "server".to_owned(),
            name: name.into(),
            protocol: Protocol::Detect,
            authorizations: Vec::new(),
            routes: Vec::new(),
            rate_limit: None,
        }
    }

    /// The policy of ports without a `Server`, which admits all clients.
    pub fn all_unauthenticated() -> Self {
        let name = "all-unauthenticated";
        Self::default_of(name).authorize(Authorization::default_of(name))
    }

    /// The default policy of this name, without its authorization.
    pub(crate) fn default_of(name: &str) -> Self {
        Self {
            group: String::new(),
            kind: "default".to_owned(),
            ..Self::new(name)
        }
    }

    /// Sets the name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
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

    /// Adds an authorization, which applies to all routes after their own.
    #[must_use]
    pub fn authorize(mut self, authorization: Authorization) -> Self {
        self.authorizations.push(authorization);
        self
    }

    /// Adds a route, which replaces the default route for every request.
    #[must_use]
    pub fn route(mut self, route: impl Into<InboundRoute>) -> Self {
        self.routes.push(route.into());
        self
    }

    /// Limits the rate of requests. gRPC servers have no limit.
    #[must_use]
    pub fn rate_limit(mut self, limit: RateLimit) -> Self {
        self.rate_limit = Some(limit);
        self
    }

    /// The message.
    pub fn build(&self) -> Server {
        let http = || -> (Vec<HttpRoute>, Option<HttpLocalRateLimit>) {
            let routes = self.routes.iter().map(InboundRoute::http);
            let limit = self.rate_limit.as_ref().map(RateLimit::build);
            (routes.collect(), limit)
        };
        let kind = match self.protocol {
            Protocol::Detect => {
                let (http_routes, http_local_rate_limit) = http();
                Kind::Detect(Detect {
                    timeout: Some(WireDuration {
                        seconds: DETECT_SECONDS,
                        nanos: 0,
                    }),
                    http_routes,
                    http_local_rate_limit,
                })
            }
            Protocol::Http1 => {
                let (routes, local_rate_limit) = http();
                Kind::Http1(Http1 {
                    routes,
                    local_rate_limit,
                })
            }
            Protocol::Http2 => {
                let (routes, local_rate_limit) = http();
                Kind::Http2(Http2 {
                    routes,
                    local_rate_limit,
                })
            }
            Protocol::Grpc => Kind::Grpc(Grpc {
                routes: self.routes.iter().map(InboundRoute::grpc).collect(),
            }),
            Protocol::Opaque => Kind::Opaque(Opaque {}),
            Protocol::Tls => Kind::Tls(Tls {}),
        };
        let labels = [
            ("group", &self.group),
            ("kind", &self.kind),
            ("name", &self.name),
        ];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.clone()));
        Server {
            protocol: Some(ProxyProtocol { kind: Some(kind) }),
            server_ips: Vec::new(),
            authorizations: self
                .authorizations
                .iter()
                .map(Authorization::build)
                .collect(),
            labels: labels.into(),
        }
    }
}

impl From<ServerPolicy> for Server {
    fn from(policy: ServerPolicy) -> Self {
        policy.build()
    }
}

/// The API group of servers and authorizations.
const POLICY_GROUP: &str = "policy.linkerd.io";

/// The timeout that a control plane usually sends.
const DETECT_SECONDS: i64 = 10;
