//! Filters: changes of a request or of its response, and answers in place of an endpoint.

use http::{HeaderName, HeaderValue, StatusCode, uri::Scheme};

/// A filter of an HTTP or gRPC route, or of its use of a backend. Filters apply in their order; after one that answers, no
/// other applies.
#[derive(Clone, Debug, PartialEq)]
pub enum HttpFilter {
    /// Fails some requests.
    InjectFailure(FailureInjector),
    /// Changes the headers of the request.
    RequestHeaders(HeaderModifier),
    /// Changes the headers of the response.
    ResponseHeaders(HeaderModifier),
    /// Redirects the client.
    Redirect(Redirect),
}

/// The injection of failures (`HttpFailureInjector`, `GrpcFailureInjector`).
#[derive(Clone, Debug, PartialEq)]
pub struct FailureInjector {
    /// The failure.
    pub failure: InjectedFailure,
    /// The text of the failure.
    pub message: String,
    /// The share of requests that fail.
    pub ratio: Ratio,
}

/// The injected failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFailure {
    /// An HTTP status.
    Status(StatusCode),
    /// A gRPC code.
    Grpc(u16),
}

/// A share, at most 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    numerator: u32,
    denominator: u32,
}

/// Changes of headers: first additions, then replacements, then removals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderModifier {
    /// Added to the present values.
    pub add: Vec<(HeaderName, HeaderValue)>,
    /// Set in place of the present values.
    pub set: Vec<(HeaderName, HeaderValue)>,
    /// Removed.
    pub remove: Vec<HeaderName>,
}

/// A redirect (`RequestRedirect`). Parts that are not set are taken from the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The scheme.
    pub scheme: Option<Scheme>,
    /// The host, without a port.
    pub host: Option<String>,
    /// The port.
    pub port: Option<u16>,
    /// The path.
    pub path: Option<PathModifier>,
    /// The status of the answer.
    pub status: StatusCode,
}

/// A change of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathModifier {
    /// Replaces the whole path, and drops the query.
    Full(String),
    /// Replaces the prefix that the route matched, and keeps the query.
    Prefix(String),
}

impl Ratio {
    /// All requests.
    pub const ALL: Self = Self {
        numerator: 1,
        denominator: 1,
    };

    /// A share. `None` if it is above 1, or has a denominator of 0.
    pub fn new(numerator: u32, denominator: u32) -> Option<Self> {
        (denominator > 0 && numerator <= denominator).then_some(Self {
            numerator,
            denominator,
        })
    }

    /// The share as a number from 0 to 1.
    pub fn as_f64(self) -> f64 {
        f64::from(self.numerator) / f64::from(self.denominator)
    }
}
