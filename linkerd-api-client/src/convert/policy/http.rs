//! HTTP and gRPC routes.

use super::{
    InvalidPolicy, NotHonoured,
    backend::{Shape, backend, distribution, shape},
    host, meta,
};
use linkerd_api_proto::{
    grpc_route as wire_grpc_match, http_route as wire_match,
    outbound::{GrpcRoute, HttpRoute as WireHttpRoute, grpc_route, http_route},
};
use linkerd_profiles::{Distribution, FAILURE_INJECTION, HostMatch, HttpRoute, Meta};
use std::sync::Arc;

/// The rules of all routes, in order.
pub(super) fn routes(
    wire: Vec<WireHttpRoute>,
    later: &mut NotHonoured,
) -> Result<Vec<HttpRoute>, InvalidPolicy> {
    let mut routes = Vec::with_capacity(wire.len());
    for route in wire {
        let meta = meta(route.metadata, "an HTTP route's metadata")?;
        let hosts = hosts(route.hosts);
        for rule in route.rules {
            let mut own = NotHonoured::default();
            let matches_all = rule.matches.is_empty() || rule.matches.iter().any(is_everything);
            own.note(!matches_all, "matches");
            own.note(!hosts.is_empty(), "hosts");
            own.timeouts(rule.timeouts.as_ref());
            own.note(rule.retry.is_some(), "retries");
            own.note(rule.allow_l5d_request_headers, "l5d request headers");
            own.filters(&rule.filters);
            let distribution = distribution(shape!(rule.backends, http_route)?, |route_backend| {
                own.filters(&route_backend.filters);
                backend(route_backend.backend, None, later)
            })?;
            routes.push(route_of(
                &meta,
                &hosts,
                matches_all,
                distribution,
                own,
                later,
            ));
        }
    }
    Ok(routes)
}

/// The rules of all gRPC routes, in order.
pub(super) fn grpc_routes(
    wire: Vec<GrpcRoute>,
    later: &mut NotHonoured,
) -> Result<Vec<HttpRoute>, InvalidPolicy> {
    let mut routes = Vec::with_capacity(wire.len());
    for route in wire {
        let meta = meta(route.metadata, "a gRPC route's metadata")?;
        let hosts = hosts(route.hosts);
        for rule in route.rules {
            let mut own = NotHonoured::default();
            let matches_all = rule.matches.is_empty() || rule.matches.iter().any(is_every_rpc);
            own.note(!matches_all, "matches");
            own.note(!hosts.is_empty(), "hosts");
            own.timeouts(rule.timeouts.as_ref());
            own.note(rule.retry.is_some(), "retries");
            own.note(rule.allow_l5d_request_headers, "l5d request headers");
            own.grpc_filters(&rule.filters);
            let distribution = distribution(shape!(rule.backends, grpc_route)?, |route_backend| {
                own.grpc_filters(&route_backend.filters);
                backend(route_backend.backend, None, later)
            })?;
            routes.push(route_of(
                &meta,
                &hosts,
                matches_all,
                distribution,
                own,
                later,
            ));
        }
    }
    Ok(routes)
}

fn route_of(
    meta: &Arc<Meta>,
    hosts: &[HostMatch],
    matches_all: bool,
    distribution: Distribution,
    own: NotHonoured,
    later: &mut NotHonoured,
) -> HttpRoute {
    later.0.extend(&own.0);
    HttpRoute {
        meta: meta.clone(),
        hosts: hosts.to_vec(),
        matches_all,
        distribution,
        not_honoured: own.list(),
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

fn is_everything(matcher: &wire_match::HttpRouteMatch) -> bool {
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

impl NotHonoured {
    fn timeouts(&mut self, timeouts: Option<&wire_match::Timeouts>) {
        let present = timeouts.is_some_and(|timeouts| {
            timeouts.response.is_some() || timeouts.request.is_some() || timeouts.idle.is_some()
        });
        self.note(present, "timeouts");
    }

    fn filters(&mut self, filters: &[http_route::Filter]) {
        use http_route::filter::Kind;
        for filter in filters {
            let what = match filter.kind {
                None => continue,
                Some(Kind::FailureInjector(_)) => FAILURE_INJECTION,
                Some(Kind::RequestHeaderModifier(_)) => "request header changes",
                Some(Kind::ResponseHeaderModifier(_)) => "response header changes",
                Some(Kind::Redirect(_)) => "redirects",
            };
            self.note(true, what);
        }
    }

    fn grpc_filters(&mut self, filters: &[grpc_route::Filter]) {
        use grpc_route::filter::Kind;
        for filter in filters {
            let what = match filter.kind {
                None => continue,
                Some(Kind::FailureInjector(_)) => FAILURE_INJECTION,
                Some(Kind::RequestHeaderModifier(_)) => "request header changes",
            };
            self.note(true, what);
        }
    }
}
