//! Routes of a service, in the terms of the Gateway API (`HTTPRoute`, `GRPCRoute`).
//!
//! A route may also be a whole object, as `kubectl get -o yaml` prints it.
//!
//! Values are checked while they are read. References to backends stay unresolved: `check` resolves them when all services
//! are known.

mod filters;
mod limits;
mod matches;
mod name;
mod object;

use self::name::name;
use super::backend_ref::BackendRef;
use super::form::{FieldReader, Fields, Given, Spanned};
use super::host_name::hostname;
use super::position::Position;
use super::yaml::Node;
use crate::policy::{Protocol, Route, RouteRule};

/// A route with its rules, whose backends are of type `B`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ServiceRoute<B> {
    pub(super) name: String,
    pub(super) hostnames: Vec<String>,
    pub(super) rules: Vec<ServiceRule<B>>,
}

/// A rule. Without backends its requests go to the service itself.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ServiceRule<B> {
    pub(super) rule: RouteRule,
    pub(super) backends: Vec<B>,
}

impl<B> ServiceRoute<B> {
    /// The same route with other backends.
    pub(super) fn map<C>(self, mut backends: impl FnMut(Vec<B>) -> Vec<C>) -> ServiceRoute<C> {
        let rules = self.rules.into_iter().map(|rule| ServiceRule {
            rule: rule.rule,
            backends: backends(rule.backends),
        });
        ServiceRoute {
            name: self.name,
            hostnames: self.hostnames,
            rules: rules.collect(),
        }
    }

    /// The route of a policy; `dispatch` sends the requests of its rules to their backends.
    pub(super) fn policy_route(&self, dispatch: impl Fn(RouteRule, &[B]) -> RouteRule) -> Route {
        let hosts = self.hostnames.iter();
        let route = hosts.fold(Route::new(&self.name), |route, host| route.host(host));
        let rules = self.rules.iter();
        rules.fold(route, |route, rule| {
            route.rule(dispatch(rule.rule.clone(), &rule.backends))
        })
    }
}

/// The field `routes` of a service.
pub(super) fn routes(
    r: &mut FieldReader,
    node: &Node,
    service: &Given<String>,
    protocol: Protocol,
) -> Vec<ServiceRoute<BackendRef>> {
    let Some(items) = r.list(node) else {
        return Vec::new();
    };
    if protocol == Protocol::Opaque {
        let reason = "opaque connections have no routes; remove `protocol: opaque` or `routes`";
        r.report(node.at, reason);
    }
    let service = match service {
        Given::Is(name) => name.value.as_str(),
        Given::Absent | Given::Wrong => "route",
    };
    let numbered = items.iter().zip(1..);
    let routes = numbered
        .filter_map(|(item, n)| route(r, item, &format!("{service}-{n}"), protocol))
        .collect();
    r.limit_patterns(node);
    routes
}

fn route(
    r: &mut FieldReader,
    node: &Node,
    usual_name: &str,
    protocol: Protocol,
) -> Option<ServiceRoute<BackendRef>> {
    let object = object::object(r, node, protocol);
    let (name, fields) = match object {
        Some(object) => (object.name, object.spec?),
        None => {
            let fields = r.fields(node, &["name", "hostnames", "rules"])?;
            (r.value(&fields, "name", name), fields)
        }
    };
    let hostnames = r.each(&fields, "hostnames", hostname);
    let mut rules = r.each(&fields, "rules", |r, node| rule(r, node, protocol));
    if fields.get("rules").is_none_or(Node::is_empty_list) {
        // As in the Gateway API: all requests go to the service.
        rules.push(ServiceRule {
            rule: RouteRule::new(),
            backends: Vec::new(),
        });
    }
    Some(ServiceRoute {
        name: name.unwrap_or_else(|| usual_name.to_owned()),
        hostnames,
        rules,
    })
}

fn rule(r: &mut FieldReader, node: &Node, protocol: Protocol) -> Option<ServiceRule<BackendRef>> {
    let fields = r.fields(
        node,
        &[
            "name",
            "matches",
            "filters",
            "backendRefs",
            "timeouts",
            "retry",
            "allowRequestHeaders",
        ],
    )?;
    r.value(&fields, "name", name);
    let mut rule = conditions_and_filters(r, &fields, protocol);
    if let Some(timeouts) = r.value(&fields, "timeouts", limits::timeouts) {
        rule = rule.timeouts(timeouts);
    }
    let retry = r.value(&fields, "retry", |r, node| limits::retry(r, node, protocol));
    if let Some(retry) = retry {
        rule = rule.retry(retry);
    }
    if r.flag(&fields, "allowRequestHeaders") {
        rule = rule.allow_request_headers();
    }
    Some(ServiceRule {
        rule,
        backends: r.each(&fields, "backendRefs", backend_ref),
    })
}

/// The fields `matches` and `filters` of a rule.
pub(super) fn conditions_and_filters(
    r: &mut FieldReader,
    fields: &Fields<'_>,
    protocol: Protocol,
) -> RouteRule {
    let (matches, shape) = matches::matches(r, fields, protocol);
    let rule = matches.into_iter().fold(RouteRule::new(), RouteRule::when);
    let filters = filters::filters(r, fields, protocol, shape);
    filters.into_iter().fold(rule, RouteRule::filter)
}

/// A backend reference of the Gateway API, as the reference `name.namespace:port` of `backends`.
fn backend_ref(r: &mut FieldReader, node: &Node) -> Option<BackendRef> {
    let fields = r.fields(
        node,
        &["group", "kind", "name", "namespace", "port", "weight"],
    )?;
    // The values that the API server fills in; other kinds of backends have no counterpart in a mesh file.
    r.choice(&fields, "group", &[("", ()), ("core", ())]);
    r.choice(&fields, "kind", &[("Service", ())]);
    let weight = r.given(&fields, "weight", FieldReader::number);
    let namespace = r.value(&fields, "namespace", FieldReader::text);
    let port = r.value(&fields, "port", |r, node| r.within(node, 1..=65_535));
    let name_at = fields.get("name").map_or(node.at, Node::position);
    let name = r.required(&fields, "the backend reference", "name", FieldReader::text)?;
    if name.contains(':') {
        let reason = format!("{name:?} is not a service name; give its port as `port`");
        r.report(name_at, reason);
        return None;
    }
    Some(BackendRef {
        service: reference(&name, namespace.as_deref(), port, name_at),
        weight,
    })
}

fn reference(
    name: &str,
    namespace: Option<&str>,
    port: Option<u32>,
    at: Position,
) -> Spanned<String> {
    let namespace = namespace.map(|namespace| format!(".{namespace}"));
    let port = port.map(|port| format!(":{port}"));
    let value = format!(
        "{name}{}{}",
        namespace.unwrap_or_default(),
        port.unwrap_or_default()
    );
    Spanned { value, at }
}

#[cfg(test)]
mod tests;
