//! Routes of a server: the table for look-ups of requests, and the authorizations of each rule.

use super::{
    authorization::Authorization,
    readings::{method_reading, path_readings, value_readings, with_path, with_value},
};
use crate::{
    backend::Distribution,
    meta::Meta,
    route::{FoundRule, RequestMatch, RouteRule, RouteTable},
};
use http::{HeaderName, Request};
use std::sync::Arc;

/// The routes of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct InboundRoutes {
    table: RouteTable,
    /// The rest of each rule, in the order of the table.
    rules: Vec<RuleAccess>,
    depends_on: DependsOn,
}

/// The parts of a request on which its authorizations depend.
#[derive(Clone, Debug, Default, PartialEq)]
struct DependsOn {
    path: bool,
    method: bool,
    fields: Vec<HeaderName>,
}

/// One rule of a route, as configured.
#[derive(Clone, Debug)]
pub struct InboundRoute {
    /// The conditions and filters of the rule. It has no backends: its requests go to the application.
    pub rule: RouteRule,
    /// The authorizations of the route. Those of the server apply after them.
    pub authorizations: Arc<[Authorization]>,
    /// Whether the rule has a filter of an unknown kind: its requests fail.
    pub has_unknown_filter: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct RuleAccess {
    authorizations: Arc<[Authorization]>,
    has_unknown_filter: bool,
}

impl InboundRoutes {
    /// Routes in their order.
    pub fn new(routes: impl IntoIterator<Item = InboundRoute>) -> Self {
        let (mut table, mut rules) = (Vec::new(), Vec::new());
        for route in routes {
            table.push(route.rule);
            rules.push(RuleAccess {
                authorizations: route.authorizations,
                has_unknown_filter: route.has_unknown_filter,
            });
        }
        let depends_on = DependsOn::of(&table);
        let table = RouteTable::new(table);
        Self {
            table,
            rules,
            depends_on,
        }
    }

    /// The rule of a request.
    pub fn find<B>(&self, request: &Request<B>) -> Option<FoundRule> {
        self.table.find(request)
    }

    /// The reading of a request for which other authorizations apply than for its rule, which is `found`; for a message. Such a
    /// request is ambiguous: its authorization would be that of another request than the application sees.
    ///
    /// Rules that do not depend on paths, methods or fields cost nothing, and plain paths one pass over them.
    pub fn ambiguity<B>(&self, request: &Request<B>, found: FoundRule) -> Option<String> {
        let differs = |read: &Request<()>| {
            let other = self
                .find(read)
                .map(|found| self.authorizations(found.index));
            other != Some(self.authorizations(found.index))
        };
        if self.depends_on.path {
            let path = request.uri().path();
            let Some(readings) = path_readings(path) else {
                return Some("its path in too many ways".to_owned());
            };
            for reading in readings {
                if with_path(request, &reading).is_none_or(|read| differs(&read)) {
                    return Some(format!("its path as {reading:?}"));
                }
            }
        }
        if self.depends_on.method
            && let Some(method) = method_reading(request.method())
        {
            return Some(format!("its method as {method}"));
        }
        self.depends_on.fields.iter().find_map(|name| {
            let mut readings = value_readings(request.headers(), name).into_iter();
            let is_other = |value| differs(&with_value(request, name, value));
            readings
                .any(is_other)
                .then(|| format!("its field {name} as one of several values"))
        })
    }

    /// The table of the rules.
    pub fn table(&self) -> &RouteTable {
        &self.table
    }

    /// The rules.
    pub fn rules(&self) -> &[RouteRule] {
        self.table.rules()
    }

    /// The authorizations of a rule's route, without those of the server.
    pub fn authorizations(&self, rule: usize) -> &[Authorization] {
        &self.rules[rule].authorizations
    }

    /// Whether a rule has a filter of an unknown kind.
    pub fn has_unknown_filter(&self, rule: usize) -> bool {
        self.rules[rule].has_unknown_filter
    }
}

impl DependsOn {
    fn of(rules: &[RouteRule]) -> Self {
        let mut depends_on = Self::default();
        let conditions = rules.iter().flat_map(|rule| &rule.matches);
        for condition in conditions.filter(|condition| !condition.is_every()) {
            let headers = match condition {
                RequestMatch::Http(condition) => {
                    depends_on.path |= condition.path.is_some();
                    depends_on.method |= condition.method.is_some();
                    &condition.headers[..]
                }
                RequestMatch::Grpc(condition) => {
                    depends_on.path = true;
                    &condition.headers
                }
                RequestMatch::Profile(_) | RequestMatch::Every => {
                    depends_on.path = true;
                    &[]
                }
            };
            for header in headers {
                if !depends_on.fields.contains(&header.name) {
                    depends_on.fields.push(header.name.clone());
                }
            }
        }
        depends_on
    }
}

impl Default for InboundRoutes {
    /// One route for all requests, with the authorizations of the server.
    fn default() -> Self {
        let meta = Arc::new(Meta::new_default("default"));
        Self::new([InboundRoute {
            rule: RouteRule::for_all(meta, Distribution::Empty),
            authorizations: Arc::default(),
            has_unknown_filter: false,
        }])
    }
}
