use super::Authorization;
use crate::policy::{Route, RouteFilter, RouteMatch};
use linkerd_api_proto::inbound::{Authz, GrpcRoute, HttpRoute, grpc_route, http_route};

/// A route of a [`ServerPolicy`](crate::ServerPolicy): hosts, matches and filters of a [`Route`], with its own authorizations.
/// Other parts of the rules apply only to outbound policies.
#[derive(Clone, Debug, PartialEq)]
pub struct InboundRoute {
    route: Route,
    authorizations: Vec<Authorization>,
}

impl InboundRoute {
    /// A route without its own authorizations.
    pub fn new(route: Route) -> Self {
        Self {
            route,
            authorizations: Vec::new(),
        }
    }

    /// Adds an authorization. The server's authorizations follow it.
    #[must_use]
    pub fn authorize(mut self, authorization: Authorization) -> Self {
        self.authorizations.push(authorization);
        self
    }

    pub(super) fn http(&self) -> HttpRoute {
        let rules = self.route.rules.iter().map(|rule| http_route::Rule {
            matches: rule.matches.iter().map(RouteMatch::http).collect(),
            filters: rule.filters.iter().filter_map(http_filter).collect(),
        });
        HttpRoute {
            metadata: Some(self.route.metadata("HTTPRoute", NAMESPACE)),
            hosts: self.route.hosts.clone(),
            authorizations: self.authorizations(),
            rules: rules.collect(),
        }
    }

    pub(super) fn grpc(&self) -> GrpcRoute {
        let rules = self.route.rules.iter().map(|rule| grpc_route::Rule {
            matches: rule.matches.iter().map(RouteMatch::grpc).collect(),
            filters: rule.filters.iter().filter_map(grpc_filter).collect(),
        });
        GrpcRoute {
            metadata: Some(self.route.metadata("GRPCRoute", NAMESPACE)),
            hosts: self.route.hosts.clone(),
            authorizations: self.authorizations(),
            rules: rules.collect(),
        }
    }

    fn authorizations(&self) -> Vec<Authz> {
        self.authorizations
            .iter()
            .map(Authorization::build)
            .collect()
    }
}

impl From<Route> for InboundRoute {
    fn from(route: Route) -> Self {
        Self::new(route)
    }
}

/// The filters that inbound HTTP routes support.
fn http_filter(filter: &RouteFilter) -> Option<http_route::Filter> {
    use http_route::filter::Kind;
    let kind = match filter.clone() {
        RouteFilter::HttpFailure(filter) => Kind::FailureInjector(filter),
        RouteFilter::RequestHeaders(filter) => Kind::RequestHeaderModifier(filter),
        RouteFilter::Redirect(filter) => Kind::Redirect(filter),
        RouteFilter::GrpcFailure(_) | RouteFilter::ResponseHeaders(_) => return None,
    };
    Some(http_route::Filter { kind: Some(kind) })
}

/// The filters that inbound gRPC routes support.
fn grpc_filter(filter: &RouteFilter) -> Option<grpc_route::Filter> {
    use grpc_route::filter::Kind;
    let kind = match filter.clone() {
        RouteFilter::GrpcFailure(filter) => Kind::FailureInjector(filter),
        RouteFilter::RequestHeaders(filter) => Kind::RequestHeaderModifier(filter),
        _ => return None,
    };
    Some(grpc_route::Filter { kind: Some(kind) })
}

/// The namespace of servers and their routes.
const NAMESPACE: &str = "default";
