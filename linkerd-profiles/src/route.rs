//! The rules of HTTP and gRPC routes, as one table.

mod condition_miss;
mod describe;
mod explain;
mod filter;
mod host;
mod pattern;
mod request_match;
mod retry;

pub use condition_miss::ConditionMiss;
pub use explain::{RuleExplanation, RuleMiss, TableExplanation};
pub use filter::{
    FailureInjector, HeaderModifier, HttpFilter, InjectedFailure, PathModifier, Ratio, Redirect,
};
pub(crate) use host::HostIndex;
pub use host::HostMatch;
pub use pattern::{InvalidPattern, Pattern};
pub use request_match::{
    GrpcMatch, HeaderMatch, HttpMatch, PathMatch, QueryMatch, RequestMatch, ValueMatch,
};
pub use retry::{RetryConditions, RetryPolicy, Timeouts};

use crate::{
    backend::{Backend, Distribution},
    meta::Meta,
    profile::ProfileRoute,
};
use http::{HeaderValue, Request, header::HOST};
use linkerd_proxy_core::yielding::with_yields;
use request_match::{FIRST_WINS, Met};
use std::sync::Arc;

/// The rules of all HTTP or gRPC routes of a policy, in its order.
#[derive(Clone, Debug, Default)]
pub struct RouteTable {
    rules: Vec<RouteRule>,
    hosts: HostIndex,
    /// Whether there is only one rule, for every request.
    is_trivial: bool,
}

/// One rule of a route.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteRule {
    /// The route that the rule belongs to.
    pub meta: Arc<Meta>,
    /// The hosts of its requests. Empty: all hosts.
    pub hosts: Vec<HostMatch>,
    /// The conditions, of which a request must meet one. Empty: all requests to the hosts.
    pub matches: Vec<RequestMatch>,
    /// The filters of its requests.
    pub filters: Vec<HttpFilter>,
    /// The backends of its requests.
    pub distribution: Distribution<HttpBackend>,
    /// The limits of its requests.
    pub timeouts: Timeouts,
    /// The retries of its requests.
    pub retry: Option<RetryPolicy>,
    /// Whether requests may change timeouts and retries by headers (`l5d-timeout`, `l5d-retry-http`, and others).
    pub allows_request_headers: bool,
    /// The route of the profile, if the rule stands for one.
    pub profile: Option<Arc<ProfileRoute>>,
}

/// A rule's use of a backend.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpBackend {
    /// The backend.
    pub backend: Backend,
    /// The filters of requests to the backend.
    pub filters: Vec<HttpFilter>,
}

/// The rule of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundRule {
    /// The index of the rule in the table.
    pub index: usize,
    /// The length of the path prefix that matched, if it matched by a prefix.
    pub prefix: Option<usize>,
}

impl RouteTable {
    /// A table of rules. Yields the core to other threads meanwhile.
    pub fn new(rules: Vec<RouteRule>) -> Self {
        let mut hosts = HostIndex::default();
        for (index, rule) in with_yields(rules.iter().enumerate()) {
            hosts.add(index, &rule.hosts);
        }
        let is_trivial = matches!(&rules[..], [only] if only.is_for_all());
        Self {
            rules,
            hosts,
            is_trivial,
        }
    }

    /// The rules.
    pub fn rules(&self) -> &[RouteRule] {
        &self.rules
    }

    /// The rules, mutable except for their hosts and conditions.
    pub fn rules_mut(&mut self) -> &mut [RouteRule] {
        &mut self.rules
    }

    /// The rule of a request: among the rules for the most specific host with a match, the rule with the most specific condition,
    /// and the first one if several are equal.
    ///
    /// Exact hosts are more specific than suffixes, and longer suffixes than shorter ones. Among conditions, the longest path
    /// decides, then whether it is the exact path, then the number of headers, of parameters, and a method: not quite the
    /// order of the Gateway API, but the order that users of Linkerd have. Among the routes of a profile, the first one decides.
    pub fn find<B>(&self, request: &Request<B>) -> Option<FoundRule> {
        if self.is_trivial {
            return Some(FoundRule {
                index: 0,
                prefix: Some(0),
            });
        }
        if let Some(rules) = self.hosts.only_any() {
            return self.best(rules, request);
        }
        let mut levels = self.hosts.of(request_host(request).unwrap_or_default());
        levels.find_map(|rules| self.best(rules, request))
    }

    /// Whether the host decides and the request names two: in its target, which counts here, and in a `Host` header, which many
    /// servers read instead. Matching by one while the server uses the other would be a way around a rule.
    pub fn is_ambiguous<B>(&self, request: &Request<B>) -> bool {
        if self.is_trivial || self.hosts.only_any().is_some() {
            return false;
        }
        let (Some(target), Some(host)) = (request.uri().host(), request.headers().get(HOST)) else {
            return false;
        };
        !named_host(host).is_some_and(|host| host::is_same(host, target))
    }

    fn best<B>(&self, rules: &[usize], request: &Request<B>) -> Option<FoundRule> {
        let mut best: Option<(usize, Met)> = None;
        for index in rules {
            let Some(met) = self.rules[*index].meets(request) else {
                continue;
            };
            if best.is_none_or(|(_, best)| met.rank > best.rank) {
                best = Some((*index, met));
            }
            if met.rank[0] == FIRST_WINS[0] {
                break;
            }
        }
        best.map(|(index, met)| FoundRule {
            index,
            prefix: met.prefix,
        })
    }
}

impl RouteRule {
    /// Whether the rule belongs to a policy, not to a profile: policies have their own metrics (`route_*`).
    pub fn is_of_policy(&self) -> bool {
        self.profile.is_none()
    }

    /// A rule for all requests, without any features.
    pub fn for_all(meta: Arc<Meta>, distribution: Distribution<HttpBackend>) -> Self {
        Self {
            meta,
            hosts: Vec::new(),
            matches: Vec::new(),
            filters: Vec::new(),
            distribution,
            timeouts: Timeouts::default(),
            retry: None,
            allows_request_headers: false,
            profile: None,
        }
    }

    /// The most specific condition that the request meets.
    fn meets<B>(&self, request: &Request<B>) -> Option<Met> {
        match &self.matches[..] {
            [] => return RequestMatch::Http(HttpMatch::default()).meets(request),
            [only] => return only.meets(request),
            _ => {}
        }
        let met = self
            .matches
            .iter()
            .filter_map(|condition| condition.meets(request));
        met.reduce(|best, next| if next.rank > best.rank { next } else { best })
    }

    fn is_for_all(&self) -> bool {
        let every = || self.matches.iter().any(RequestMatch::is_every);
        self.hosts.is_empty() && (self.matches.is_empty() || every())
    }
}

impl From<Backend> for HttpBackend {
    /// The backend without filters.
    fn from(backend: Backend) -> Self {
        let filters = Vec::new();
        Self { backend, filters }
    }
}

impl FromIterator<RouteRule> for RouteTable {
    fn from_iter<I: IntoIterator<Item = RouteRule>>(rules: I) -> Self {
        Self::new(rules.into_iter().collect())
    }
}

impl PartialEq for RouteTable {
    fn eq(&self, other: &Self) -> bool {
        self.rules == other.rules
    }
}

/// The host of a request: from its target, or else from `Host`.
pub fn request_host<B>(request: &Request<B>) -> Option<&str> {
    if let Some(host) = request.uri().host() {
        return Some(host);
    }
    named_host(request.headers().get(HOST)?)
}

/// The host of a `Host` header.
fn named_host(header: &HeaderValue) -> Option<&str> {
    let authority = header.to_str().ok()?;
    // The port is after the last colon, unless that is within an IPv6 address.
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => Some(host),
        _ => Some(authority),
    }
}

#[cfg(test)]
mod tests;
