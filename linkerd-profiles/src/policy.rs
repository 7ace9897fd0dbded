//! The policy of a target: its protocol, and the routes of that protocol.

use crate::{
    backend::{Distribution, TcpFilter},
    meta::Meta,
};
use std::{sync::Arc, time::Duration};

/// What applies to the traffic of a target.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientPolicy {
    /// The resource that the policy belongs to.
    pub parent: Arc<Meta>,
    /// How connections are treated.
    pub protocol: Protocol,
    /// Why nothing may pass, if the policy makes no sense: requests get a 500, opaque connections are closed.
    pub invalid: Option<String>,
    /// Parts of the message that are not acted on.
    pub not_honoured: Vec<&'static str>,
}

/// How connections are treated.
#[derive(Clone, Debug, PartialEq)]
pub enum Protocol {
    /// By what their first bytes look like.
    Detect {
        /// How long to wait for these.
        timeout: Duration,
        /// Routes for HTTP/1.
        http1: Vec<HttpRoute>,
        /// Routes for HTTP/2.
        http2: Vec<HttpRoute>,
        /// The route for everything else.
        opaque: Option<OpaqueRoute>,
    },
    /// As HTTP/1.
    Http1(Vec<HttpRoute>),
    /// As HTTP/2.
    Http2(Vec<HttpRoute>),
    /// As gRPC, which is HTTP/2.
    Grpc(Vec<HttpRoute>),
    /// As opaque bytes.
    Opaque(Option<OpaqueRoute>),
    /// As TLS that is passed through.
    Tls(Vec<TlsRoute>),
}

/// One rule of an HTTP or gRPC route.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpRoute {
    /// The route that the rule belongs to.
    pub meta: Arc<Meta>,
    /// The hosts that it is for. Empty: all.
    pub hosts: Vec<HostMatch>,
    /// Whether it matches every request to its hosts.
    pub matches_all: bool,
    /// Where requests go.
    pub distribution: Distribution,
    /// Parts of the rule that are not acted on.
    pub not_honoured: Vec<&'static str>,
}

/// What a request's host is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostMatch {
    /// The host itself.
    Exact(String),
    /// A suffix, its labels from the right: `*.example.com` is `[com, example]`.
    Suffix(Vec<String>),
}

/// The route of opaque connections.
#[derive(Clone, Debug, PartialEq)]
pub struct OpaqueRoute {
    /// Where it was configured.
    pub meta: Arc<Meta>,
    /// Where connections go.
    pub distribution: Distribution,
    /// What refuses them before.
    pub filter: Option<TcpFilter>,
}

/// A route of TLS connections.
#[derive(Clone, Debug, PartialEq)]
pub struct TlsRoute {
    /// Where it was configured.
    pub meta: Arc<Meta>,
    /// The server names that it is for. Empty: all.
    pub snis: Vec<SniMatch>,
    /// Where connections go.
    pub distribution: Distribution,
    /// What refuses them before.
    pub filter: Option<TcpFilter>,
}

/// What a connection's server name is compared with.
pub type SniMatch = HostMatch;

impl ClientPolicy {
    /// A policy that lets nothing pass, because of `reason`.
    pub fn invalid(reason: impl Into<String>) -> Self {
        Self {
            invalid: Some(reason.into()),
            ..Self::without_routes(Meta::new_default("invalid"))
        }
    }

    /// A policy with nowhere to go: requests get a 404.
    pub fn empty() -> Self {
        Self::without_routes(Meta::new_default("empty"))
    }

    /// The routes for HTTP of this version. `None`: the policy is not for HTTP.
    pub fn http_routes(&self, version: http::Version) -> Option<&[HttpRoute]> {
        match &self.protocol {
            Protocol::Detect { http2, .. } if version == http::Version::HTTP_2 => Some(http2),
            Protocol::Detect { http1, .. } => Some(http1),
            Protocol::Http1(routes) | Protocol::Http2(routes) | Protocol::Grpc(routes) => {
                Some(routes)
            }
            Protocol::Opaque(_) | Protocol::Tls(_) => None,
        }
    }

    /// The default route: the first that is for all requests, or else the last.
    pub fn http_route(&self, version: http::Version) -> Option<&HttpRoute> {
        let routes = self.http_routes(version)?;
        routes
            .iter()
            .find(|route| route.hosts.is_empty() && route.matches_all)
            .or(routes.last())
    }

    /// The route of opaque connections. `None`: the policy is not for them, or has no route.
    pub fn opaque_route(&self) -> Option<&OpaqueRoute> {
        match &self.protocol {
            Protocol::Detect { opaque, .. } | Protocol::Opaque(opaque) => opaque.as_ref(),
            _ => None,
        }
    }

    fn without_routes(parent: Meta) -> Self {
        Self {
            parent: Arc::new(parent),
            protocol: Protocol::Detect {
                timeout: DETECT_TIMEOUT,
                http1: Vec::new(),
                http2: Vec::new(),
                opaque: None,
            },
            invalid: None,
            not_honoured: Vec::new(),
        }
    }
}

/// What the control plane sends. The outbound listener has a timeout of its own.
const DETECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A part of a rule that is not acted on yet: filters that answer instead of a backend.
pub const FAILURE_INJECTION: &str = "failure injection";
