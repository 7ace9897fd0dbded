//! The rules of HTTP and gRPC routes, as one table.

use crate::{backend::Distribution, meta::Meta};
use std::sync::Arc;

/// The rules of all HTTP or gRPC routes of a policy, in its order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RouteTable {
    /// The rules.
    pub rules: Vec<RouteRule>,
}

/// One rule of a route.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteRule {
    /// The route that the rule belongs to.
    pub meta: Arc<Meta>,
    /// The hosts of its requests. Empty: all.
    pub hosts: Vec<HostMatch>,
    /// Whether it matches every request to its hosts.
    pub matches_all: bool,
    /// Whether it, or one of its backends, injects failures. These are not injected yet, so the rule refuses all
    /// requests: one that denies by them must not let through.
    pub injects_failures: bool,
    /// The backends of its requests.
    pub distribution: Distribution,
}

/// A pattern for the host of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostMatch {
    /// The host itself.
    Exact(String),
    /// A suffix, its labels from the right: `*.example.com` is `[com, example]`.
    Suffix(Vec<String>),
}

impl RouteTable {
    /// The rule of every request: the first that is for all requests, or else the last.
    pub fn find(&self) -> Option<&RouteRule> {
        let for_all = self.rules.iter().find(|rule| rule.is_for_all());
        for_all.or(self.rules.last())
    }
}

impl RouteRule {
    /// A rule for all requests.
    pub fn for_all(meta: Arc<Meta>, distribution: Distribution) -> Self {
        Self {
            meta,
            hosts: Vec::new(),
            matches_all: true,
            injects_failures: false,
            distribution,
        }
    }

    fn is_for_all(&self) -> bool {
        self.hosts.is_empty() && self.matches_all
    }
}

impl FromIterator<RouteRule> for RouteTable {
    fn from_iter<I: IntoIterator<Item = RouteRule>>(rules: I) -> Self {
        Self {
            rules: rules.into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn for_all(name: &str) -> RouteRule {
        RouteRule::for_all(Arc::new(Meta::new_default(name)), Distribution::Empty)
    }

    #[test]
    fn the_least_specific_rule_is_found() {
        let for_host = || RouteRule {
            hosts: vec![HostMatch::Exact("web".into())],
            ..for_all("for-host")
        };
        let for_some = || RouteRule {
            matches_all: false,
            ..for_all("for-some")
        };
        let found = |rules: Vec<RouteRule>| {
            let table: RouteTable = rules.into_iter().collect();
            table.find().map(|rule| rule.meta.name().to_owned())
        };
        let name = |name: &str| Some(name.to_owned());
        let rules = vec![for_host(), for_all("first"), for_some(), for_all("second")];
        assert_eq!(found(rules), name("first"));
        assert_eq!(
            found(vec![for_host(), for_some()]),
            name("for-some"),
            "else the last"
        );
        assert_eq!(found(Vec::new()), None);
    }
}
