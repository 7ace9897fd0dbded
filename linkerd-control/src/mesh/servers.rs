//! Policies of inbound ports, in the terms of a `Server`, its authorizations, routes and `HTTPLocalRateLimitPolicy`.

mod access;
mod rate_limit;

use super::form::{FieldReader, Fields};
use super::host_name::{hostname, resource_name};
use super::routes::conditions_and_filters;
use super::yaml::Node;
use crate::policy::{Protocol, Route, RouteFilter};
use crate::server_policy::{Authorization, InboundRoute, ServerPolicy};
use access::authorizations;
use rate_limit::rate_limit;
use std::collections::HashMap;

/// The policy of an inbound port.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MeshServer {
    pub(super) port: u16,
    pub(super) policy: ServerPolicy,
}

/// The field `defaultAccessPolicy` of a file: the policy of all ports without a server.
pub(super) fn default_policy(r: &mut FieldReader, fields: &Fields<'_>) -> Option<ServerPolicy> {
    let access = r.choice(fields, "defaultAccessPolicy", &ACCESS_POLICIES)?;
    let policy = ServerPolicy::default_of(access.unwrap_or(DENY));
    Some(match access {
        Some(access) => policy.authorize(default_authorization(access)),
        None => policy,
    })
}

/// The field `servers` of a file, one server for each port.
pub(super) fn servers(r: &mut FieldReader, node: &Node) -> Option<Vec<MeshServer>> {
    let mut lines = HashMap::new();
    let mut servers = Vec::new();
    for item in r.list(node)? {
        for server in server(r, item) {
            if let Some(first) = lines.insert(server.port, item.at.line) {
                let reason = format!(
                    "port {} has a server already, in line {first}; remove one",
                    server.port
                );
                r.report(item.at, reason);
            }
            servers.push(server);
        }
    }
    Some(servers)
}

/// One server for each of its ports; none if any part is wrong.
fn server(r: &mut FieldReader, node: &Node) -> Vec<MeshServer> {
    let Some((ports, name, policy)) = policy_of_ports(r, node) else {
        return Vec::new();
    };
    let servers = ports.into_iter().map(|port| {
        let name = name.clone().unwrap_or_else(|| format!("port-{port}"));
        let policy = policy.clone().name(name);
        MeshServer { port, policy }
    });
    servers.collect()
}

/// The ports, the declared name, and the policy without a name.
fn policy_of_ports(
    r: &mut FieldReader,
    node: &Node,
) -> Option<(Vec<u16>, Option<String>, ServerPolicy)> {
    let fields = r.fields(
        node,
        &[
            "name",
            "port",
            "ports",
            "protocol",
            "authorizations",
            "accessPolicy",
            "routes",
            "rateLimit",
        ],
    )?;
    let ports = ports(r, &fields);
    let name = r.value(&fields, "name", resource_name);
    let protocol = match fields.get("protocol") {
        None => Some(Protocol::Detect),
        Some(_) => r.choice(&fields, "protocol", &PROTOCOLS),
    };
    let default = r.choice(&fields, "accessPolicy", &ACCESS_POLICIES);
    let own = r.value(&fields, "authorizations", authorizations);
    let limit = r.value(&fields, "rateLimit", rate_limit);
    // The fields of routes depend on the protocol: errors would mislead.
    let routes = protocol
        .and_then(|protocol| r.value(&fields, "routes", |r, node| routes(r, node, protocol)));
    let (ports, protocol) = (ports?, protocol?);
    let has_limit = matches!(
        protocol,
        Protocol::Detect | Protocol::Http1 | Protocol::Http2
    );
    if let Some(node) = fields.get("rateLimit")
        && !has_limit
    {
        let reason = "only `protocol: detect`, `http1` and `http2` have a `rateLimit`; remove it";
        r.report(node.at, reason);
    }
    let mut policy = ServerPolicy::new("").protocol(protocol);
    for authorization in own.into_iter().flatten() {
        policy = policy.authorize(authorization);
    }
    if let Some(Some(default)) = default {
        policy = policy.authorize(default_authorization(default));
    }
    for route in routes.into_iter().flatten() {
        policy = policy.route(route);
    }
    if let Some(limit) = limit {
        policy = policy.rate_limit(limit);
    }
    Some((ports, name, policy))
}

/// Either `port`, or `ports` with the same policy.
fn ports(r: &mut FieldReader, fields: &Fields<'_>) -> Option<Vec<u16>> {
    let port = |r: &mut FieldReader, node: &Node| {
        let port = r.within(node, 1..=65_535)?;
        u16::try_from(port).ok()
    };
    let Some(node) = fields.get("ports") else {
        return Some(vec![r.required(fields, "the server", "port", port)?]);
    };
    if fields.get("port").is_some() {
        r.report(node.at, "`port` and `ports` are given; remove one of them");
    }
    if node.is_empty_list() {
        r.report(node.at, "the server has no ports; add at least one");
    }
    Some(r.each(fields, "ports", port))
}

fn routes(r: &mut FieldReader, node: &Node, protocol: Protocol) -> Option<Vec<InboundRoute>> {
    if matches!(protocol, Protocol::Opaque | Protocol::Tls) {
        r.report(node.at, "opaque connections have no `routes`; remove them");
    }
    let items = r.list(node)?.iter().zip(1..);
    let routes = items.filter_map(|(item, n)| route(r, item, n, protocol));
    let routes = routes.collect();
    r.limit_patterns(node);
    Some(routes)
}

fn route(
    r: &mut FieldReader,
    node: &Node,
    number: usize,
    protocol: Protocol,
) -> Option<InboundRoute> {
    let fields = r.fields(node, &["name", "hostnames", "rules", "authorizations"])?;
    let name = r.value(&fields, "name", resource_name);
    let mut route = Route::new(name.unwrap_or_else(|| format!("route-{number}")));
    for host in r.each(&fields, "hostnames", hostname) {
        route = route.host(&host);
    }
    if fields.get("rules").is_none_or(Node::is_empty_list) {
        r.report(fields.at, "the route has no `rules`; add at least one");
    }
    for node in r.items(&fields, "rules") {
        let Some(fields) = r.fields(node, &["matches", "filters"]) else {
            continue;
        };
        let rule = conditions_and_filters(r, &fields, protocol);
        let changes_responses =
            |filter: &RouteFilter| matches!(filter, RouteFilter::ResponseHeaders(_));
        if rule.filters.iter().any(changes_responses) {
            let reason = "inbound routes have no ResponseHeaderModifier; remove it";
            r.report(node.at, reason);
        }
        route = route.rule(rule);
    }
    let own = r.value(&fields, "authorizations", authorizations);
    let route = InboundRoute::new(route);
    let own = own.into_iter().flatten();
    Some(own.fold(route, InboundRoute::authorize))
}

fn default_authorization(policy: &str) -> Authorization {
    let authorization = Authorization::default_of(policy);
    match policy {
        ALL_AUTHENTICATED => authorization.identities_below(""),
        _ => authorization,
    }
}

const PROTOCOLS: [(&str, Protocol); 6] = [
    ("detect", Protocol::Detect),
    ("http1", Protocol::Http1),
    ("http2", Protocol::Http2),
    ("grpc", Protocol::Grpc),
    ("opaque", Protocol::Opaque),
    ("tls", Protocol::Tls),
];

/// Access for clients that no authorization admits: the name of a default policy that admits them, if any.
const ACCESS_POLICIES: [(&str, Option<&str>); 4] = [
    (DENY, None),
    ("audit", Some("audit")),
    ("all-unauthenticated", Some("all-unauthenticated")),
    (ALL_AUTHENTICATED, Some(ALL_AUTHENTICATED)),
];

const DENY: &str = "deny";
const ALL_AUTHENTICATED: &str = "all-authenticated";

#[cfg(test)]
mod tests;
