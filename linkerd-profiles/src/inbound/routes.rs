//! Routes of a server: the table for look-ups of requests, and the authorizations of each rule.

use super::authorization::Authorization;
use crate::{
    backend::Distribution,
    meta::Meta,
    route::{FoundRule, RouteRule, RouteTable},
};
use http::Request;
use std::sync::Arc;

/// The routes of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct InboundRoutes {
    table: RouteTable,
    /// The rest of each rule, in the order of the table.
    rules: Vec<RuleAccess>,
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
        let table = RouteTable::new(table);
        Self { table, rules }
    }

    /// The rule of a request.
    pub fn find<B>(&self, request: &Request<B>) -> Option<FoundRule> {
        self.table.find(request)
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
