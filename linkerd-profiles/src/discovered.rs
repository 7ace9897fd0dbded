//! A target's policy and profile together, and the decisions by each of them.

use crate::{
    backend::{Backend, Dispatcher, Distribution, PeakEwma, TcpFilter},
    meta::Meta,
    policy::{ClientPolicy, OpaqueRoute, Protocol},
    profile::{Profile, ProfileMatch, ProfileRoute, RetryBudgetSettings},
    route::{HttpBackend, RequestMatch, RouteRule, RouteTable},
    target::Target,
    tls_route::{TlsRoute, TlsTable},
};
use linkerd_proxy_core::Destination;
use std::{sync::Arc, time::Duration};

/// A target, with its policy and profile.
///
/// | question | answered by the profile if | else by |
/// |---|---|---|
/// | [`protocol`](Self::protocol) | it says opaque | the policy |
/// | [`http`](Self::http) | it has routes or targets, and a logical address | the policy |
/// | [`opaque`](Self::opaque) | it has targets and a logical address | the policy |
/// | [`tls`](Self::tls) | never | the policy |
#[derive(Clone, Debug, PartialEq)]
pub struct Discovered {
    /// The target.
    pub target: Target,
    /// The policy; a synthesized one if the control plane has none.
    pub policy: Arc<ClientPolicy>,
    /// The profile, if there is one.
    pub profile: Option<Arc<Profile>>,
}

/// The protocol of a target's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolKind {
    /// Detected by the first bytes.
    Detect {
        /// The policy's limit for the first bytes to arrive.
        timeout: Duration,
    },
    /// HTTP/1.
    Http1,
    /// HTTP/2, including gRPC.
    Http2,
    /// Opaque bytes.
    Opaque,
    /// TLS that is passed through.
    Tls,
}

/// The routes of HTTP requests to a target.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpRouting {
    /// The logical address, if the profile has one.
    pub logical: Option<Destination>,
    /// The resource that the requests address.
    pub parent: Arc<Meta>,
    /// Whether the policy declares the requests as gRPC.
    pub is_grpc: bool,
    /// The routes.
    pub table: Arc<RouteTable>,
    /// The value of `l5d-dst-canonical` for requests that a profile routes.
    pub canonical_header: Option<Destination>,
    /// The budget of a profile, shared by the retries of its routes.
    pub retry_budget: Option<RetryBudgetSettings>,
}

/// A policy that is invalid, or not for this kind of traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidRouting {
    /// The reason.
    pub reason: String,
}

/// The route of connections, or the reason why they have none.
#[derive(Clone, Debug, PartialEq)]
pub enum RouteSource {
    /// A route.
    Route(RouteSpec),
    /// The policy has no route for the traffic.
    NoRoute {
        /// The resource that the policy belongs to.
        parent: Arc<Meta>,
    },
    /// The policy is invalid, or not for this kind of traffic.
    Invalid {
        /// The resource that the policy belongs to.
        parent: Arc<Meta>,
        /// The reason.
        reason: String,
    },
}

/// A route of a policy or of a profile for connections.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteSpec {
    /// The logical address, if the profile has one.
    pub logical: Option<Destination>,
    /// The resource that the traffic addresses.
    pub parent: Arc<Meta>,
    /// The route.
    pub route: Arc<Meta>,
    /// The backends.
    pub distribution: Distribution,
    /// The filter that refuses connections.
    pub filter: Option<TcpFilter>,
}

/// The routes of TLS connections to a target.
#[derive(Clone, Debug, PartialEq)]
pub struct TlsRouting {
    /// The logical address, if the profile has one.
    pub logical: Option<Destination>,
    /// The resource that the policy belongs to.
    pub parent: Arc<Meta>,
    /// The routes.
    pub table: Arc<TlsTable>,
}

impl TlsRouting {
    /// The specification of one of the routes.
    pub fn spec(&self, route: &TlsRoute) -> RouteSpec {
        RouteSpec {
            logical: self.logical.clone(),
            parent: self.parent.clone(),
            route: route.meta.clone(),
            distribution: route.distribution.clone(),
            filter: route.filter.clone(),
        }
    }
}

impl InvalidRouting {
    fn new(reason: &str) -> Self {
        let reason = reason.to_owned();
        Self { reason }
    }
}

impl Discovered {
    /// The protocol of connections to the target.
    pub fn protocol(&self) -> ProtocolKind {
        if self.profile.as_ref().is_some_and(|profile| profile.opaque) {
            return ProtocolKind::Opaque;
        }
        match &self.policy.protocol {
            Protocol::Detect { timeout, .. } => ProtocolKind::Detect { timeout: *timeout },
            Protocol::Http1(_) => ProtocolKind::Http1,
            Protocol::Http2(_) | Protocol::Grpc(_) => ProtocolKind::Http2,
            Protocol::Opaque(_) => ProtocolKind::Opaque,
            Protocol::Tls(_) => ProtocolKind::Tls,
        }
    }

    /// The logical address, if the profile has one.
    pub fn logical(&self) -> Option<&Destination> {
        self.profile.as_ref()?.logical.as_ref()
    }

    /// The routes of HTTP requests.
    pub fn http(&self, version: http::Version) -> Result<HttpRouting, InvalidRouting> {
        if let Some(profile) = &self.profile
            && (!profile.routes.is_empty() || !profile.targets.is_empty())
            && let Some(spec) = self.by_profile(profile)
        {
            let backends = spec.distribution.map(HttpBackend::from);
            return Ok(HttpRouting {
                canonical_header: spec.logical.clone(),
                logical: spec.logical,
                parent: spec.parent,
                is_grpc: false,
                table: Arc::new(RouteTable::new(rules(profile, &spec.route, &backends))),
                retry_budget: profile.retry_budget,
            });
        }
        if let Some(reason) = &self.policy.invalid {
            return Err(InvalidRouting::new(reason));
        }
        let table = self.policy.http_routes(version);
        let table = table.ok_or_else(|| InvalidRouting::new("the policy is not for HTTP"))?;
        Ok(HttpRouting {
            logical: self.logical().cloned(),
            parent: self.policy.parent.clone(),
            is_grpc: matches!(self.policy.protocol, Protocol::Grpc(_)),
            table: table.clone(),
            canonical_header: None,
            retry_budget: None,
        })
    }

    /// The route of opaque connections.
    pub fn opaque(&self) -> RouteSource {
        if let Some(profile) = &self.profile
            && !profile.targets.is_empty()
            && let Some(spec) = self.by_profile(profile)
        {
            return RouteSource::Route(spec);
        }
        if let Some(reason) = &self.policy.invalid {
            return self.refuse(reason.clone());
        }
        let route = match &self.policy.protocol {
            Protocol::Detect { opaque, .. } | Protocol::Opaque(opaque) => opaque,
            Protocol::Http1(_) | Protocol::Http2(_) | Protocol::Grpc(_) | Protocol::Tls(_) => {
                return self.refuse("the policy is not for opaque connections".to_owned());
            }
        };
        match route {
            None => self.no_route(),
            Some(route) => self.by_policy(route),
        }
    }

    /// The routes of TLS connections, which profiles do not have.
    pub fn tls(&self) -> Result<TlsRouting, InvalidRouting> {
        if let Some(reason) = &self.policy.invalid {
            return Err(InvalidRouting::new(reason));
        }
        match &self.policy.protocol {
            Protocol::Tls(table) => Ok(TlsRouting {
                logical: self.logical().cloned(),
                parent: self.policy.parent.clone(),
                table: table.clone(),
            }),
            _ => Err(InvalidRouting::new("the policy is not for TLS connections")),
        }
    }

    fn by_policy(&self, route: &OpaqueRoute) -> RouteSource {
        RouteSource::Route(RouteSpec {
            logical: self.logical().cloned(),
            parent: self.policy.parent.clone(),
            route: route.meta.clone(),
            distribution: route.distribution.clone(),
            filter: route.filter.clone(),
        })
    }

    /// The route of the profile; `None` if it has no logical address.
    fn by_profile(&self, profile: &Profile) -> Option<RouteSpec> {
        let logical = profile.logical.as_ref()?;
        let balance = |destination: &Destination| Backend {
            meta: service(destination),
            dispatcher: Dispatcher::Balance {
                destination: destination.clone(),
                load: PeakEwma::default(),
                breaker: None,
            },
            filter: None,
        };
        let distribution = match &profile.targets[..] {
            [] => Distribution::only(balance(logical)),
            [only] => Distribution::only(balance(&only.destination)),
            targets => Distribution::RandomAvailable(
                targets
                    .iter()
                    .map(|target| (balance(&target.destination), target.weight))
                    .collect(),
            ),
        };
        Some(RouteSpec {
            parent: service(logical),
            route: Arc::new(Meta::new_default("serviceprofile")),
            distribution,
            logical: Some(logical.clone()),
            filter: None,
        })
    }

    fn no_route(&self) -> RouteSource {
        RouteSource::NoRoute {
            parent: self.policy.parent.clone(),
        }
    }

    fn refuse(&self, reason: String) -> RouteSource {
        RouteSource::Invalid {
            parent: self.policy.parent.clone(),
            reason,
        }
    }
}

/// The rules of a profile: its routes, and one for all other requests.
fn rules(
    profile: &Profile,
    meta: &Arc<Meta>,
    backends: &Distribution<HttpBackend>,
) -> Vec<RouteRule> {
    let rule = |route: &Arc<ProfileRoute>, matches| RouteRule {
        matches,
        profile: Some(route.clone()),
        ..RouteRule::for_all(meta.clone(), backends.clone())
    };
    let routes = profile.routes.iter();
    let others = Arc::new(ProfileRoute::new(ProfileMatch::EVERY));
    routes
        .map(|route| rule(route, vec![RequestMatch::Profile(route.clone())]))
        .chain([rule(&others, Vec::new())])
        .collect()
}

/// The resource of a service. Profiles name services only; any other name is `unknown`.
fn service(destination: &Destination) -> Arc<Meta> {
    Arc::new(Meta::of_service(destination).unwrap_or_else(|| Meta::new_default("unknown")))
}

#[cfg(test)]
mod tests;
