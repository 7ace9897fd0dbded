//! Routes of a policy and their rules.

use super::{Dispatch, RouteFilter, RouteMatch, RouteRetry, RouteTimeouts};
use linkerd_api_proto::http_route::{HostMatch, host_match};
use linkerd_api_proto::meta::{Metadata, Resource, metadata};

/// A route of a policy: a `GRPCRoute` in a gRPC policy, otherwise an `HTTPRoute`.
///
/// ```
/// use linkerd_control::{Policy, Route, RouteFilter, RouteMatch, RouteRule};
///
/// let admin = RouteRule::new()
///     .when(RouteMatch::prefix("/admin").header("x-admin", "yes"))
///     .to("web-admin", 80);
/// let rest = RouteRule::new().filter(RouteFilter::fail(503, "later"));
/// let route = Route::new("web").host("*.shop.test").rule(admin).rule(rest);
/// let policy = Policy::balance("web", 80).route(route).build();
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    name: String,
    pub(crate) hosts: Vec<HostMatch>,
    pub(crate) rules: Vec<RouteRule>,
}

/// A rule of a [`Route`]. It uses the policy's backends unless it names its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RouteRule {
    pub(crate) matches: Vec<RouteMatch>,
    pub(crate) filters: Vec<RouteFilter>,
    pub(super) dispatch: Option<Dispatch>,
    pub(super) backend_filters: Vec<RouteFilter>,
    pub(super) timeouts: Option<RouteTimeouts>,
    pub(super) retry: Option<RouteRetry>,
    pub(super) allows_request_headers: bool,
}

impl Route {
    /// A route without hosts and rules, in the namespace of the policy's service.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            hosts: Vec::new(),
            rules: Vec::new(),
        }
    }

    /// Adds a host: `web.test`, or a suffix such as `*.test`.
    #[must_use]
    pub fn host(mut self, host: &str) -> Self {
        let host = match host.strip_prefix("*.") {
            Some(suffix) => host_match::Match::Suffix(host_match::Suffix {
                reverse_labels: suffix.rsplit('.').map(str::to_owned).collect(),
            }),
            None => host_match::Match::Exact(host.to_owned()),
        };
        self.hosts.push(HostMatch {
            r#match: Some(host),
        });
        self
    }

    /// Adds a rule.
    #[must_use]
    pub fn rule(mut self, rule: RouteRule) -> Self {
        self.rules.push(rule);
        self
    }

    pub(crate) fn metadata(&self, kind: &str, namespace: &str) -> Metadata {
        route_metadata(kind, &self.name, namespace)
    }
}

/// The metadata of a route of the Gateway API.
pub(super) fn route_metadata(kind: &str, name: &str, namespace: &str) -> Metadata {
    Metadata {
        kind: Some(metadata::Kind::Resource(Resource {
            group: "gateway.networking.k8s.io".to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            section: String::new(),
            port: 0,
        })),
    }
}

impl RouteRule {
    /// A rule for every request, without filters.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a match; a request must meet one of them.
    #[must_use]
    pub fn when(mut self, condition: RouteMatch) -> Self {
        self.matches.push(condition);
        self
    }

    /// Adds a filter.
    #[must_use]
    pub fn filter(mut self, filter: RouteFilter) -> Self {
        self.filters.push(filter);
        self
    }

    /// Adds a filter to the rule's use of its backends.
    #[must_use]
    pub fn backend_filter(mut self, filter: RouteFilter) -> Self {
        self.backend_filters.push(filter);
        self
    }

    /// Limits the time of requests. Rules without timeouts have the policy's request timeout.
    #[must_use]
    pub fn timeouts(mut self, timeouts: RouteTimeouts) -> Self {
        self.timeouts = Some(timeouts);
        self
    }

    /// Retries failed requests.
    #[must_use]
    pub fn retry(mut self, retry: RouteRetry) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Lets requests set timeouts and retries by `l5d-*` headers.
    #[must_use]
    pub fn allow_request_headers(mut self) -> Self {
        self.allows_request_headers = true;
        self
    }

    /// Sends requests to a service of the policy's namespace.
    #[must_use]
    pub fn to(mut self, name: impl Into<String>, port: u16) -> Self {
        self.dispatch = Some(Dispatch::service(name, port));
        self
    }

    /// Splits requests among services of the policy's namespace, each with name, port and weight.
    #[must_use]
    pub fn split<N: Into<String>>(
        mut self,
        backends: impl IntoIterator<Item = (N, u16, u32)>,
    ) -> Self {
        self.dispatch = Some(Dispatch::weighted(backends));
        self
    }

    /// Splits requests among services of any namespaces, each with name, namespace, port and weight.
    #[must_use]
    pub(crate) fn split_among(
        mut self,
        backends: impl IntoIterator<Item = (String, String, u16, u32)>,
    ) -> Self {
        self.dispatch = Some(Dispatch::among(backends));
        self
    }
}
