//! Routes of servers. HTTP and gRPC routes are read into one type, and converted from there.

use super::{access::authorizations, invalid::InvalidServer, resource::of_metadata};
use crate::convert::policy::{InvalidPolicy, Matches, filters, hosts};
use linkerd_api_proto::{
    http_route::HostMatch,
    inbound::{Authz, GrpcRoute, HttpRoute, grpc_route, http_route},
    meta::Metadata,
};
use linkerd_profiles::{
    Distribution, HttpFilter, InboundRoute, InboundRoutes, RequestMatch, RouteRule,
};
use std::sync::Arc;

/// An HTTP or gRPC route.
pub(super) struct Route<R> {
    metadata: Option<Metadata>,
    hosts: Vec<HostMatch>,
    authorizations: Vec<Authz>,
    rules: Vec<R>,
}

/// A rule of an HTTP or gRPC route.
pub(super) trait WireRule: Sized {
    fn read(self, conditions: &mut Matches) -> Result<Rule, InvalidPolicy>;
}

/// A rule of either kind of route.
pub(super) struct Rule {
    matches: Vec<RequestMatch>,
    /// The filters; `None` for a filter of an unknown kind.
    filters: Vec<Option<HttpFilter>>,
}

/// Converts the rules of all routes, in order. Without any route, one default route takes all requests.
pub(super) fn routes<R: WireRule>(
    wire: Vec<impl Into<Route<R>>>,
) -> Result<InboundRoutes, InvalidServer> {
    if wire.is_empty() {
        return Ok(InboundRoutes::default());
    }
    let mut conditions = Matches::default();
    let mut rules = Vec::with_capacity(wire.len());
    for route in wire {
        let route: Route<R> = route.into();
        let meta = of_metadata(route.metadata, "a route's metadata")?;
        let hosts = hosts(route.hosts)?;
        let authorizations: Arc<[_]> = authorizations(route.authorizations)?.into();
        for wire in route.rules {
            let Rule { matches, filters } = wire.read(&mut conditions)?;
            rules.push(InboundRoute {
                authorizations: authorizations.clone(),
                has_unknown_filter: filters.iter().any(Option::is_none),
                rule: RouteRule {
                    hosts: hosts.clone(),
                    matches,
                    filters: filters.into_iter().flatten().collect(),
                    ..RouteRule::for_all(meta.clone(), Distribution::Empty)
                },
            });
        }
    }
    Ok(InboundRoutes::new(rules))
}

impl From<HttpRoute> for Route<http_route::Rule> {
    fn from(wire: HttpRoute) -> Self {
        Self {
            metadata: wire.metadata,
            hosts: wire.hosts,
            authorizations: wire.authorizations,
            rules: wire.rules,
        }
    }
}

impl From<GrpcRoute> for Route<grpc_route::Rule> {
    fn from(wire: GrpcRoute) -> Self {
        Self {
            metadata: wire.metadata,
            hosts: wire.hosts,
            authorizations: wire.authorizations,
            rules: wire.rules,
        }
    }
}

impl WireRule for http_route::Rule {
    fn read(self, conditions: &mut Matches) -> Result<Rule, InvalidPolicy> {
        use http_route::filter::Kind;
        let matches = self.matches.into_iter().map(|wire| conditions.http(wire));
        let filters = self.filters.into_iter().map(|wire| {
            let converted = wire.kind.map(|kind| match kind {
                Kind::FailureInjector(wire) => filters::http_failure(wire),
                Kind::RequestHeaderModifier(wire) => filters::request_headers(wire),
                Kind::Redirect(wire) => filters::redirect(wire).map(HttpFilter::Redirect),
            });
            converted.transpose()
        });
        Ok(Rule {
            matches: matches.collect::<Result<_, _>>()?,
            filters: filters.collect::<Result<_, _>>()?,
        })
    }
}

impl WireRule for grpc_route::Rule {
    fn read(self, conditions: &mut Matches) -> Result<Rule, InvalidPolicy> {
        use grpc_route::filter::Kind;
        let filters = self.filters.into_iter().map(|wire| {
            let converted = wire.kind.map(|kind| match kind {
                Kind::FailureInjector(wire) => filters::grpc_failure(wire),
                Kind::RequestHeaderModifier(wire) => filters::request_headers(wire),
            });
            converted.transpose()
        });
        Ok(Rule {
            matches: conditions.grpc_all(self.matches)?,
            filters: filters.collect::<Result<_, _>>()?,
        })
    }
}
