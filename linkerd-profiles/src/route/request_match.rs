//! Conditions on a request, and their specificity.

use super::Pattern;
use crate::profile::ProfileRoute;
use http::{HeaderName, Method, Request};
use std::sync::Arc;

/// A condition on a request, all of whose parts must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestMatch {
    /// A condition of an HTTP route.
    Http(HttpMatch),
    /// A condition of a gRPC route.
    Grpc(GrpcMatch),
    /// No condition, of a rule of a gRPC route without any: every condition is more specific. An HTTP rule without conditions is as
    /// specific as the prefix `/` (Gateway API, `HTTPRouteRule`), so that its length counts.
    Every,
    /// A condition of a profile's route: the first one that is met wins.
    Profile(Arc<ProfileRoute>),
}

/// A condition of an HTTP route (`HttpRouteMatch`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpMatch {
    /// The path; `None` is every path.
    pub path: Option<PathMatch>,
    /// Headers.
    pub headers: Vec<HeaderMatch>,
    /// Parameters of the query.
    pub query: Vec<QueryMatch>,
    /// The method.
    pub method: Option<Method>,
}

/// A condition of a gRPC route (`GrpcRouteMatch`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrpcMatch {
    /// The service; `None` is every service.
    pub service: Option<String>,
    /// The method; `None` is every method.
    pub method: Option<String>,
    /// Headers.
    pub headers: Vec<HeaderMatch>,
}

/// A condition on a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathMatch {
    /// The whole path, byte by byte.
    Exact(String),
    /// The first segments: `/foo` is a prefix of `/foo/bar` and not of `/foobar`.
    Prefix(String),
    /// The whole path, by a regular expression.
    Regex(Pattern),
}

/// A condition on a header. One of its values must meet it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderMatch {
    /// The header.
    pub name: HeaderName,
    /// The value.
    pub value: ValueMatch<Vec<u8>>,
}

/// A condition on a parameter of the query, decoded as a form is. One of its values must meet it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryMatch {
    /// The parameter.
    pub name: String,
    /// The value.
    pub value: ValueMatch<String>,
}

/// A condition on a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueMatch<T> {
    /// Equal to this.
    Exact(T),
    /// Matched by this, as a whole.
    Regex(Pattern),
}

/// The specificity of a condition; among the conditions that a request meets, the greatest rank decides.
///
/// For HTTP: the length of the matched path, whether that is the exact path, the number of headers and of parameters, and
/// whether it names the method. For gRPC: the lengths of service and method, the number of headers.
pub(super) type Rank = [usize; 5];

/// The rank of a condition that no later condition can beat.
pub(super) const FIRST_WINS: Rank = [usize::MAX; 5];

/// A condition that a request meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Met {
    pub(super) rank: Rank,
    /// The length of the matched path prefix, if a prefix matched.
    pub(super) prefix: Option<usize>,
}

impl RequestMatch {
    /// Whether every request meets the condition.
    pub fn is_every(&self) -> bool {
        match self {
            Self::Http(HttpMatch {
                path,
                headers,
                query,
                method,
            }) => {
                let any_path = match path {
                    None => true,
                    Some(PathMatch::Prefix(prefix)) => prefix.trim_end_matches('/').is_empty(),
                    Some(_) => false,
                };
                any_path && headers.is_empty() && query.is_empty() && method.is_none()
            }
            Self::Every => true,
            Self::Grpc(_) | Self::Profile(_) => false,
        }
    }

    /// The rank and prefix with which the request meets the condition; `None` if it does not.
    pub(super) fn meets<B>(&self, request: &Request<B>) -> Option<Met> {
        match self {
            Self::Http(condition) => condition.meets(request),
            Self::Grpc(condition) => condition.meets(request),
            Self::Every => Some(Met {
                rank: [0; 5],
                prefix: Some(0),
            }),
            Self::Profile(route) => route.condition.is_met(request).then_some(Met {
                rank: FIRST_WINS,
                prefix: None,
            }),
        }
    }
}

impl HttpMatch {
    fn meets<B>(&self, request: &Request<B>) -> Option<Met> {
        let path = request.uri().path();
        let (length, is_exact, prefix) = match &self.path {
            None => (1, 0, Some(0)),
            Some(PathMatch::Exact(exact)) => (path == exact).then_some((path.len(), 1, None))?,
            Some(PathMatch::Regex(regex)) => {
                regex.matches(path).then_some((path.len(), 0, None))?
            }
            Some(PathMatch::Prefix(prefix)) => {
                let length = prefix_length(prefix, path)?;
                (length.max(1), 0, Some(length))
            }
        };
        let is_met = self
            .method
            .as_ref()
            .is_none_or(|method| request.method() == method)
            && self.headers.iter().all(|header| header.is_met(request))
            && (self.query.is_empty() || self.query_is_met(request.uri().query()));
        is_met.then_some(Met {
            rank: [
                length,
                is_exact,
                self.headers.len(),
                self.query.len(),
                usize::from(self.method.is_some()),
            ],
            prefix,
        })
    }

    fn query_is_met(&self, query: Option<&str>) -> bool {
        self.query.iter().all(|parameter| parameter.is_met(query))
    }
}

impl PathMatch {
    /// Whether a path meets the condition.
    pub(super) fn is_met(&self, path: &str) -> bool {
        match self {
            Self::Exact(exact) => path == exact,
            Self::Regex(regex) => regex.matches(path),
            Self::Prefix(prefix) => prefix_length(prefix, path).is_some(),
        }
    }
}

impl QueryMatch {
    /// Whether a query meets the condition.
    pub(super) fn is_met(&self, query: Option<&str>) -> bool {
        let query = query.unwrap_or_default().as_bytes();
        form_urlencoded::parse(query).any(|(name, value)| {
            name == self.name
                && match &self.value {
                    ValueMatch::Exact(exact) => value == *exact,
                    ValueMatch::Regex(regex) => regex.matches(&value),
                }
        })
    }

    /// The values of the parameter in a query.
    pub(super) fn values_of<'a>(
        &'a self,
        query: Option<&'a str>,
    ) -> impl Iterator<Item = String> + use<'a> {
        let parameters = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        let own = parameters.filter(|(name, _)| *name == self.name);
        own.map(|(_, value)| value.into_owned())
    }
}

impl GrpcMatch {
    fn meets<B>(&self, request: &Request<B>) -> Option<Met> {
        let path = request.uri().path().strip_prefix('/')?;
        let (service, method) = path.split_once('/')?;
        if request.method() != Method::POST || service.is_empty() || method.is_empty() {
            return None;
        }
        let is = |expected: &Option<String>, name: &str| {
            expected.as_ref().is_none_or(|expected| expected == name)
        };
        let is_met = is(&self.service, service)
            && is(&self.method, method)
            && self.headers.iter().all(|header| header.is_met(request));
        let length = |name: &Option<String>| name.as_ref().map_or(0, String::len);
        is_met.then(|| Met {
            rank: [
                length(&self.service),
                length(&self.method),
                self.headers.len(),
                0,
                0,
            ],
            prefix: None,
        })
    }
}

impl HeaderMatch {
    /// Whether a request meets the condition.
    pub(super) fn is_met<B>(&self, request: &Request<B>) -> bool {
        let values = request.headers().get_all(&self.name);
        values.iter().any(|value| match &self.value {
            ValueMatch::Exact(exact) => value.as_bytes() == exact,
            ValueMatch::Regex(regex) => {
                std::str::from_utf8(value.as_bytes()).is_ok_and(|value| regex.matches(value))
            }
        })
    }
}

/// The length of `prefix` without trailing slashes, if it is a prefix of `path` by segments.
fn prefix_length(prefix: &str, path: &str) -> Option<usize> {
    let mut prefix = prefix.as_bytes();
    while let [shorter @ .., b'/'] = prefix {
        prefix = shorter;
    }
    let rest = path.as_bytes().strip_prefix(prefix)?;
    matches!(rest, [] | [b'/', ..]).then_some(prefix.len())
}

#[cfg(test)]
mod tests;
