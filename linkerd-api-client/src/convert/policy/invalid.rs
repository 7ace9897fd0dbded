//! Errors of policies.

use crate::convert::{endpoint::InvalidEndpoint, method::InvalidMethod, patterns::PatternError};
use ::http::HeaderName;
use linkerd_profiles::{InvalidPattern, Meta};
use linkerd_proxy_core::{InvalidBackoff, InvalidDestination};
use std::time::Duration;

/// The reason why a policy is invalid. The whole policy is refused: half a policy could allow traffic that the other half
/// forbids.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InvalidPolicy {
    /// A rule of a route is invalid.
    #[error("{place}: {error}")]
    Rule {
        /// The rule, by its number and its route.
        place: String,
        /// The error.
        error: Box<InvalidPolicy>,
    },
    /// A required field is missing.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A resource reference lacks a part.
    #[error("a resource reference has no {0}")]
    Resource(&'static str),
    /// A port is out of range.
    #[error("the port of a resource reference ({0}) is above 65535")]
    Port(u32),
    /// A duration is negative or malformed.
    #[error("{0} is no duration")]
    Duration(&'static str),
    /// The weights cannot be added.
    #[error("the weights of a distribution exceed 32 bits")]
    Weights,
    /// The endpoints of a balancer cannot be discovered.
    #[error("a balancer's destination must be `name:port`, and {:?} is not", .0.0)]
    Destination(#[from] InvalidDestination),
    /// A backend forwards to an endpoint that cannot be used.
    #[error("cannot forward: {0}")]
    Endpoint(#[from] InvalidEndpoint),
    /// Opaque connections have one route.
    #[error("opaque traffic has {0} routes; at most one is possible")]
    OpaqueRoutes(usize),
    /// Routes of connections have one rule.
    #[error("a TCP or TLS route has {0} rules; it must have one")]
    Rules(usize),
    /// A regular expression cannot be used.
    #[error(transparent)]
    Pattern(#[from] InvalidPattern),
    /// There are more regular expressions than a policy may have.
    #[error("the policy has more than {0} regular expressions")]
    Patterns(usize),
    /// A match or a filter names an impossible header.
    #[error("{0:?} is no header name")]
    HeaderName(String),
    /// A filter gives a header an impossible value.
    #[error("the value of the header {0} in a filter is none")]
    HeaderValue(HeaderName),
    /// A filter gives a header that delimits messages, which the proxy writes as the body is sent.
    #[error("a filter cannot give the header {0}: the proxy writes it; remove it from the filter")]
    FramingHeader(HeaderName),
    /// A match names an impossible method.
    #[error("{0:?} is no method")]
    Method(String),
    /// A status does not exist.
    #[error("{0} is no status that this filter may answer with")]
    Status(u32),
    /// A failure is injected into an impossible share of requests.
    #[error("the ratio of injected failures, {0}/{1}, is not between 0 and 1")]
    Ratio(u32, u32),
    /// A redirect leads to an impossible host.
    #[error("{0:?} is no host for a redirect")]
    RedirectHost(String),
    /// A redirect leads to an impossible port.
    #[error("the port of a redirect ({0}) is above 65535")]
    RedirectPort(u32),
    /// A redirect leads to an impossible scheme.
    #[error("{0:?} is no scheme for a redirect")]
    Scheme(String),
    /// A range of statuses to retry is out of bounds.
    #[error("the statuses to retry, {0} to {1}, are not within 1 to 599")]
    StatusRange(u32, u32),
    /// There are too many retries.
    #[error("the number of retries ({0}) is above 65535")]
    MaxRetries(u32),
    /// A success rate is impossible.
    #[error("the success rate of failure accrual ({0}) is not between 0 and 1")]
    SuccessRate(String),
    /// The window of a success rate is too short.
    #[error("the decay of a success rate ({0:?}) is below 10ms")]
    SuccessRateDecay(Duration),
    /// A success rate needs too many requests.
    #[error("the minimum of requests for a success rate ({0}) is above 1000000")]
    MinRequests(u32),
    /// The pauses between retries, or the lengths of ejections, are impossible.
    #[error("a backoff is invalid: {0}")]
    Backoff(#[from] InvalidBackoff),
}

impl InvalidPolicy {
    /// Names the rule of the error: its number in its route, from 1.
    pub(super) fn in_rule(self, number: usize, route: &Meta) -> Self {
        Self::Rule {
            place: format!("rule {number} of {}", route.kind_and_name()),
            error: Box::new(self),
        }
    }
}

impl From<PatternError> for InvalidPolicy {
    fn from(error: PatternError) -> Self {
        match error {
            PatternError::Invalid(pattern) => Self::Pattern(pattern),
            PatternError::TooMany(most) => Self::Patterns(most),
        }
    }
}

impl From<InvalidMethod> for InvalidPolicy {
    fn from(error: InvalidMethod) -> Self {
        match error {
            InvalidMethod::Missing => Self::Missing("a method match"),
            InvalidMethod::Name(name) => Self::Method(name),
        }
    }
}
