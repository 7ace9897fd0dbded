//! HTTP and gRPC routes. Both are read into one form, and converted from there.

use super::{
    backend::{Shape, backend, distribution, shape},
    invalid::InvalidPolicy,
    parts::{NotHonoured, host, meta},
};
use linkerd_api_proto::{
    grpc_route as wire_grpc_match, http_route as wire_match, meta as wire_meta,
    outbound::{self as wire, grpc_route, http_route},
};
use linkerd_profiles::{HostMatch, RouteRule, RouteTable};

/// An HTTP or gRPC route.
pub(super) struct Route {
    /// The name of the metadata in errors.
    metadata_name: &'static str,
    metadata: Option<wire_meta::Metadata>,
    hosts: Vec<wire_match::HostMatch>,
    rules: Vec<Result<Rule, InvalidPolicy>>,
}

/// A rule of such a route.
struct Rule {
    matches_all: bool,
    filters: Vec<Filter>,
    timeouts: Option<wire_match::Timeouts>,
    has_retry: bool,
    allows_request_headers: bool,
    backends: Shape<RouteBackend>,
}

/// A backend of such a rule.
struct RouteBackend {
    backend: Option<wire::Backend>,
    filters: Vec<Filter>,
}

/// A filter of a rule or of a backend.
#[derive(Clone, Copy)]
enum Filter {
    FailureInjector,
    RequestHeaders,
    ResponseHeaders,
    Redirect,
}

/// Converts the rules of all routes, in order.
pub(super) fn routes<R: Into<Route>>(
    wire: Vec<R>,
    later: &mut NotHonoured,
) -> Result<RouteTable, InvalidPolicy> {
    let mut rules = Vec::with_capacity(wire.len());
    for route in wire {
        let route: Route = route.into();
        let meta = meta(route.metadata, route.metadata_name)?;
        let hosts = hosts(route.hosts);
        for wire in route.rules {
            let wire = wire?;
            later.note(!wire.matches_all, "matches");
            later.note(!hosts.is_empty(), "hosts");
            later.note(wire.has_timeouts(), "timeouts");
            later.note(wire.has_retry, "retries");
            later.note(wire.allows_request_headers, "l5d request headers");
            let mut injects_failures = later.filters(&wire.filters);
            let distribution = distribution(wire.backends, |route_backend| {
                injects_failures |= later.filters(&route_backend.filters);
                backend(route_backend.backend, None, later)
            })?;
            rules.push(RouteRule {
                meta: meta.clone(),
                hosts: hosts.clone(),
                matches_all: wire.matches_all,
                injects_failures,
                distribution,
            });
        }
    }
    Ok(RouteTable { rules })
}

impl From<wire::HttpRoute> for Route {
    fn from(wire: wire::HttpRoute) -> Self {
        let rules = wire.rules.into_iter().map(Rule::try_from);
        Self {
            metadata_name: "an HTTP route's metadata",
            metadata: wire.metadata,
            hosts: wire.hosts,
            rules: rules.collect(),
        }
    }
}

impl From<wire::GrpcRoute> for Route {
    fn from(wire: wire::GrpcRoute) -> Self {
        let rules = wire.rules.into_iter().map(Rule::try_from);
        Self {
            metadata_name: "a gRPC route's metadata",
            metadata: wire.metadata,
            hosts: wire.hosts,
            rules: rules.collect(),
        }
    }
}

impl TryFrom<http_route::Rule> for Rule {
    type Error = InvalidPolicy;

    fn try_from(wire: http_route::Rule) -> Result<Self, InvalidPolicy> {
        Ok(Self {
            matches_all: wire.matches.is_empty() || wire.matches.iter().any(is_every_request),
            filters: wire.filters.iter().filter_map(Filter::http).collect(),
            timeouts: wire.timeouts,
            has_retry: wire.retry.is_some(),
            allows_request_headers: wire.allow_l5d_request_headers,
            backends: shape!(wire.backends, http_route)?.map(|wire| RouteBackend {
                filters: wire.filters.iter().filter_map(Filter::http).collect(),
                backend: wire.backend,
            }),
        })
    }
}

impl TryFrom<grpc_route::Rule> for Rule {
    type Error = InvalidPolicy;

    fn try_from(wire: grpc_route::Rule) -> Result<Self, InvalidPolicy> {
        Ok(Self {
            matches_all: wire.matches.is_empty() || wire.matches.iter().any(is_every_rpc),
            filters: wire.filters.iter().filter_map(Filter::grpc).collect(),
            timeouts: wire.timeouts,
            has_retry: wire.retry.is_some(),
            allows_request_headers: wire.allow_l5d_request_headers,
            backends: shape!(wire.backends, grpc_route)?.map(|wire| RouteBackend {
                filters: wire.filters.iter().filter_map(Filter::grpc).collect(),
                backend: wire.backend,
            }),
        })
    }
}

impl Rule {
    fn has_timeouts(&self) -> bool {
        self.timeouts.as_ref().is_some_and(|timeouts| {
            timeouts.response.is_some() || timeouts.request.is_some() || timeouts.idle.is_some()
        })
    }
}

impl Filter {
    fn http(wire: &http_route::Filter) -> Option<Self> {
        use http_route::filter::Kind;
        Some(match wire.kind.as_ref()? {
            Kind::FailureInjector(_) => Self::FailureInjector,
            Kind::RequestHeaderModifier(_) => Self::RequestHeaders,
            Kind::ResponseHeaderModifier(_) => Self::ResponseHeaders,
            Kind::Redirect(_) => Self::Redirect,
        })
    }

    fn grpc(wire: &grpc_route::Filter) -> Option<Self> {
        use grpc_route::filter::Kind;
        Some(match wire.kind.as_ref()? {
            Kind::FailureInjector(_) => Self::FailureInjector,
            Kind::RequestHeaderModifier(_) => Self::RequestHeaders,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::FailureInjector => "failure injection",
            Self::RequestHeaders => "request header changes",
            Self::ResponseHeaders => "response header changes",
            Self::Redirect => "redirects",
        }
    }
}

impl NotHonoured {
    /// Notes the filters. Returns whether one of them injects failures.
    fn filters(&mut self, filters: &[Filter]) -> bool {
        for filter in filters {
            self.note(true, filter.name());
        }
        let injects = |filter| matches!(filter, &Filter::FailureInjector);
        filters.iter().any(injects)
    }
}

fn hosts(wire: Vec<wire_match::HostMatch>) -> Vec<HostMatch> {
    use wire_match::host_match::Match;
    wire.into_iter()
        .filter_map(|matcher| match matcher.r#match? {
            Match::Exact(exact) => Some(host(Some(exact), Vec::new())),
            Match::Suffix(suffix) => Some(host(None, suffix.reverse_labels)),
        })
        .collect()
}

fn is_every_request(matcher: &wire_match::HttpRouteMatch) -> bool {
    use wire_match::path_match::Kind;
    let path = matcher.path.as_ref().and_then(|path| path.kind.as_ref());
    let any_path = match path {
        None => true,
        Some(Kind::Prefix(prefix)) => prefix.is_empty() || prefix == "/",
        Some(Kind::Exact(_) | Kind::Regex(_)) => false,
    };
    any_path
        && matcher.headers.is_empty()
        && matcher.query_params.is_empty()
        && matcher.method.is_none()
}

fn is_every_rpc(matcher: &wire_grpc_match::GrpcRouteMatch) -> bool {
    let any_rpc = matcher
        .rpc
        .as_ref()
        .is_none_or(|rpc| rpc.service.is_empty() && rpc.method.is_empty());
    any_rpc && matcher.headers.is_empty()
}
