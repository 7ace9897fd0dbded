//! The policy of a target: its protocol, and the routes of that protocol.

use crate::{
    backend::{Distribution, TcpFilter},
    meta::Meta,
    route::RouteTable,
    tls_route::TlsTable,
};
use std::{sync::Arc, time::Duration};

/// The policy of a target's traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientPolicy {
    /// The resource that the policy belongs to.
    pub parent: Arc<Meta>,
    /// The protocol, with its routes.
    pub protocol: Protocol,
    /// The reason why all traffic is refused, if the policy is invalid: requests get a 500, opaque connections are closed.
    pub invalid: Option<String>,
}

/// The protocol of connections, with its routes.
#[derive(Clone, Debug, PartialEq)]
pub enum Protocol {
    /// Detected by the first bytes.
    Detect {
        /// The limit of the wait for the first bytes.
        timeout: Duration,
        /// Routes for HTTP/1.
        http1: Arc<RouteTable>,
        /// Routes for HTTP/2.
        http2: Arc<RouteTable>,
        /// The route for all other traffic.
        opaque: Option<OpaqueRoute>,
    },
    /// HTTP/1.
    Http1(Arc<RouteTable>),
    /// HTTP/2.
    Http2(Arc<RouteTable>),
    /// gRPC, which is HTTP/2.
    Grpc(Arc<RouteTable>),
    /// Opaque bytes.
    Opaque(Option<OpaqueRoute>),
    /// TLS that is passed through.
    Tls(Arc<TlsTable>),
}

/// The route of opaque connections.
#[derive(Clone, Debug, PartialEq)]
pub struct OpaqueRoute {
    /// The resource that configured the route.
    pub meta: Arc<Meta>,
    /// The backends of its connections.
    pub distribution: Distribution,
    /// The filter that refuses its connections.
    pub filter: Option<TcpFilter>,
}

impl ClientPolicy {
    /// A policy that refuses all traffic, because of `reason`.
    pub fn invalid(reason: impl Into<String>) -> Self {
        Self {
            invalid: Some(reason.into()),
            ..Self::without_routes(Meta::new_default("invalid"))
        }
    }

    /// A policy without routes: requests get a 404.
    pub fn empty() -> Self {
        Self::without_routes(Meta::new_default("empty"))
    }

    /// The routes for HTTP of this version. `None`: the policy is not for HTTP.
    pub fn http_routes(&self, version: http::Version) -> Option<&Arc<RouteTable>> {
        match &self.protocol {
            Protocol::Detect { http2, .. } if version == http::Version::HTTP_2 => Some(http2),
            Protocol::Detect { http1, .. } => Some(http1),
            Protocol::Http1(routes) | Protocol::Http2(routes) | Protocol::Grpc(routes) => {
                Some(routes)
            }
            Protocol::Opaque(_) | Protocol::Tls(_) => None,
        }
    }

    /// The route of opaque connections. `None`: the policy is not for opaque connections, or has no route.
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
                http1: Arc::default(),
                http2: Arc::default(),
                opaque: None,
            },
            invalid: None,
        }
    }
}

/// The control plane's usual value. The outbound listener has its own timeout.
const DETECT_TIMEOUT: Duration = Duration::from_secs(10);
