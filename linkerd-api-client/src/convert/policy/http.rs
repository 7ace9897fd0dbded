//! HTTP and gRPC routes. Both are read into one type, and converted from there.

pub(in crate::convert) mod filters;
mod limits;
mod matches;

use super::{
    accrual::breaker,
    backend::{Shape, distribution, http_backend, shape},
    invalid::InvalidPolicy,
    parts::{host, meta, required},
};
use linkerd_api_proto::{
    http_route as wire_match, meta as wire_meta,
    outbound::{self as wire, grpc_route, http_route},
    prost_types,
};
use linkerd_profiles::{
    FailureAccrual, HostMatch, HttpBackend, HttpFilter, Meta, RequestMatch, RetryPolicy, RouteRule,
    RouteTable,
};
use linkerd_proxy_core::yielding::{TimeSlice, with_yields};
pub(in crate::convert) use matches::Matches;
use std::{iter::zip, sync::Arc};

/// An HTTP or gRPC route.
pub(super) struct Route<R> {
    /// The name of the metadata in errors.
    metadata_name: &'static str,
    metadata: Option<wire_meta::Metadata>,
    hosts: Vec<wire_match::HostMatch>,
    rules: Vec<R>,
}

/// A rule of an HTTP or gRPC route.
pub(super) trait WireRule: Sized {
    /// The parts that rules of both kinds have.
    fn read(self, conditions: &mut Matches) -> Result<Rule, InvalidPolicy>;
}

/// A rule of either kind of route.
pub(super) struct Rule {
    matches: Vec<RequestMatch>,
    filters: Vec<HttpFilter>,
    timeouts: Option<wire_match::Timeouts>,
    request_timeout: Option<prost_types::Duration>,
    retry: Option<RetryPolicy>,
    allows_request_headers: bool,
    backends: Shape<RouteBackend>,
}

/// A backend of a [`Rule`].
struct RouteBackend {
    backend: Option<wire::Backend>,
    filters: Result<Vec<HttpFilter>, InvalidPolicy>,
}

/// Whether two lists of routes are equal. Yields the core to other threads meanwhile.
pub(super) fn equal(a: &[wire::HttpRoute], b: &[wire::HttpRoute]) -> bool {
    let heads_are_equal = |(a, b): (&wire::HttpRoute, &wire::HttpRoute)| {
        a.metadata == b.metadata && a.hosts == b.hosts && a.rules.len() == b.rules.len()
    };
    let rules_of = |routes| {
        let routes: &[wire::HttpRoute] = routes;
        routes.iter().flat_map(|route| &route.rules)
    };
    a.len() == b.len()
        && zip(a, b).all(heads_are_equal)
        && with_yields(zip(rules_of(a), rules_of(b))).all(|(a, b)| a == b)
}

/// Converts the rules of all routes, in order. `accrual` is the breaker of the protocol. Yields the core to other threads
/// meanwhile.
pub(super) fn routes<R: WireRule>(
    wire: Vec<impl Into<Route<R>>>,
    accrual: Option<wire::FailureAccrual>,
) -> Result<RouteTable, InvalidPolicy> {
    let breaker = breaker(accrual)?;
    let mut conditions = Matches::default();
    let mut rules = Vec::with_capacity(wire.len());
    let mut slice = TimeSlice::begin();
    for route in wire {
        let route: Route<R> = route.into();
        let meta = meta(route.metadata, route.metadata_name)?;
        let hosts = hosts(route.hosts)?;
        for (wire, number) in zip(route.rules, 1..) {
            let rule = rule(wire, &meta, &hosts, &mut conditions, breaker.as_ref());
            rules.push(rule.map_err(|error| error.in_rule(number, &meta))?);
            slice.yield_if_over();
        }
    }
    Ok(RouteTable::new(rules))
}

fn rule<R: WireRule>(
    wire: R,
    meta: &Arc<Meta>,
    hosts: &[HostMatch],
    conditions: &mut Matches,
    breaker: Option<&Arc<FailureAccrual>>,
) -> Result<RouteRule, InvalidPolicy> {
    let wire = wire.read(conditions)?;
    Ok(RouteRule {
        timeouts: limits::timeouts(wire.timeouts, wire.request_timeout)?,
        meta: meta.clone(),
        hosts: hosts.to_vec(),
        matches: wire.matches,
        filters: wire.filters,
        distribution: distribution(wire.backends, |used| {
            Ok(HttpBackend {
                filters: used.filters?,
                backend: http_backend(used.backend, breaker)?,
            })
        })?,
        retry: wire.retry,
        allows_request_headers: wire.allows_request_headers,
        profile: None,
    })
}

impl From<wire::HttpRoute> for Route<http_route::Rule> {
    fn from(wire: wire::HttpRoute) -> Self {
        Self {
            metadata_name: "an HTTP route's metadata",
            metadata: wire.metadata,
            hosts: wire.hosts,
            rules: wire.rules,
        }
    }
}

impl From<wire::GrpcRoute> for Route<grpc_route::Rule> {
    fn from(wire: wire::GrpcRoute) -> Self {
        Self {
            metadata_name: "a gRPC route's metadata",
            metadata: wire.metadata,
            hosts: wire.hosts,
            rules: wire.rules,
        }
    }
}

#[allow(
    deprecated,
    reason = "older control planes send the request timeout in its old field"
)]
impl WireRule for http_route::Rule {
    fn read(self, conditions: &mut Matches) -> Result<Rule, InvalidPolicy> {
        let matches = self.matches.into_iter().map(|wire| conditions.http(wire));
        Ok(Rule {
            matches: matches.collect::<Result<_, _>>()?,
            filters: filters::http(self.filters)?,
            timeouts: self.timeouts,
            request_timeout: self.request_timeout,
            retry: self.retry.map(limits::http_retry).transpose()?,
            allows_request_headers: self.allow_l5d_request_headers,
            backends: shape!(self.backends, http_route)?.map(|used| RouteBackend {
                backend: used.backend,
                filters: filters::http(used.filters),
            }),
        })
    }
}

#[allow(
    deprecated,
    reason = "older control planes send the request timeout in its old field"
)]
impl WireRule for grpc_route::Rule {
    fn read(self, conditions: &mut Matches) -> Result<Rule, InvalidPolicy> {
        Ok(Rule {
            matches: conditions.grpc_all(self.matches)?,
            filters: filters::grpc(self.filters)?,
            timeouts: self.timeouts,
            request_timeout: self.request_timeout,
            retry: self.retry.map(limits::grpc_retry).transpose()?,
            allows_request_headers: self.allow_l5d_request_headers,
            backends: shape!(self.backends, grpc_route)?.map(|used| RouteBackend {
                backend: used.backend,
                filters: filters::grpc(used.filters),
            }),
        })
    }
}

/// Converts the hosts of a route.
pub(in crate::convert) fn hosts(
    wire: Vec<wire_match::HostMatch>,
) -> Result<Vec<HostMatch>, InvalidPolicy> {
    use wire_match::host_match::Match;
    wire.into_iter()
        .map(|wire| match required(wire.r#match, "a host match")? {
            Match::Exact(exact) => Ok(host(Some(exact), Vec::new())),
            Match::Suffix(suffix) => Ok(host(None, suffix.reverse_labels)),
        })
        .collect()
}
