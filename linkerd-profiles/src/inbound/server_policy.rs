//! The policy of a port.

use super::{
    authorization::Authorization,
    decision::{Denial, NearestAuthorization, authorize},
    rate_limit::RateLimiter,
    routes::InboundRoutes,
    unmet_condition::UnmetCondition,
};
use crate::meta::Meta;
use linkerd_proxy_core::tls::TlsStatus;
use std::{net::SocketAddr, sync::Arc, time::Duration};

/// The policy of a port.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerPolicy {
    /// The resource that configured the policy.
    pub meta: Arc<Meta>,
    /// The protocol of the port, with its routes.
    pub protocol: ServerProtocol,
    /// The authorizations of connections, and of the requests of all routes after the route's own.
    pub authorizations: Vec<Authorization>,
    /// The reason why all traffic is refused, if the policy is invalid: requests get a 500, opaque connections are closed.
    pub invalid: Option<String>,
}

/// The protocol of a port, with its routes.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerProtocol {
    /// Detected by the first bytes.
    Detect {
        /// The limit of the wait for the first bytes.
        timeout: Duration,
        /// The configuration of requests, if the protocol is HTTP.
        http: InboundHttp,
    },
    /// HTTP/1.
    Http1(InboundHttp),
    /// HTTP/2.
    Http2(InboundHttp),
    /// gRPC, which is HTTP/2.
    Grpc(InboundHttp),
    /// Opaque bytes.
    Opaque,
    /// TLS that the application terminates, or the proxy if it is TLS of the mesh.
    Tls,
}

/// The configuration of a port's requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InboundHttp {
    /// The routes.
    pub routes: InboundRoutes,
    /// The limits of their rate.
    pub rate_limit: Option<Arc<RateLimiter>>,
}

impl ServerPolicy {
    /// A policy that refuses all traffic, because of `reason`.
    pub fn invalid(reason: impl Into<String>) -> Self {
        Self {
            meta: Arc::new(Meta::new_default("invalid")),
            protocol: ServerProtocol::Detect {
                timeout: DETECT_TIMEOUT,
                http: InboundHttp::default(),
            },
            authorizations: Vec::new(),
            invalid: Some(reason.into()),
        }
    }

    /// The configuration of requests; `None` if the port is not for HTTP.
    pub fn http(&self) -> Option<&InboundHttp> {
        match &self.protocol {
            ServerProtocol::Detect { http, .. }
            | ServerProtocol::Http1(http)
            | ServerProtocol::Http2(http)
            | ServerProtocol::Grpc(http) => Some(http),
            ServerProtocol::Opaque | ServerProtocol::Tls => None,
        }
    }

    /// The authorization that admits a connection other than HTTP. Ports for HTTP only admit none.
    pub fn authorize_connection(
        &self,
        client: SocketAddr,
        tls: &TlsStatus,
    ) -> Result<&Authorization, Denial> {
        let authorizations = match &self.protocol {
            ServerProtocol::Detect { .. } | ServerProtocol::Opaque | ServerProtocol::Tls => {
                &self.authorizations[..]
            }
            ServerProtocol::Http1(_) | ServerProtocol::Http2(_) | ServerProtocol::Grpc(_) => &[],
        };
        authorize(authorizations.iter(), client.ip(), tls)
            .map_err(|nearest| self.denial(client, tls, None, nearest))
    }

    /// The authorization that admits the requests of a rule.
    pub fn authorize_request(
        &self,
        rule: usize,
        client: SocketAddr,
        tls: &TlsStatus,
    ) -> Result<&Authorization, Denial> {
        let routes = self.http().map(|http| &http.routes);
        let own = routes.map_or(&[][..], |routes| routes.authorizations(rule));
        let all = own.iter().chain(&self.authorizations);
        authorize(all, client.ip(), tls).map_err(|nearest| {
            let route = routes.and_then(|routes| routes.rules().get(rule));
            self.denial(client, tls, route.map(|route| route.meta.clone()), nearest)
        })
    }

    /// All authorizations that could admit the requests of a rule or, without a rule, connections other than HTTP, in order, each
    /// with the first condition that the client does not meet.
    pub fn explain(
        &self,
        rule: Option<usize>,
        client: SocketAddr,
        tls: &TlsStatus,
    ) -> Vec<(&Authorization, Option<UnmetCondition>)> {
        let own = match (rule, self.http()) {
            (Some(rule), Some(http)) => http.routes.authorizations(rule),
            _ => &[],
        };
        let all = own.iter().chain(&self.authorizations);
        all.map(|it| (it, it.unmet(client.ip(), tls))).collect()
    }

    fn denial(
        &self,
        client: SocketAddr,
        tls: &TlsStatus,
        route: Option<Arc<Meta>>,
        nearest: Option<NearestAuthorization>,
    ) -> Denial {
        Denial {
            client,
            tls: tls.clone(),
            server: self.meta.clone(),
            route,
            nearest,
        }
    }
}

/// The control plane's usual value.
const DETECT_TIMEOUT: Duration = Duration::from_secs(10);
