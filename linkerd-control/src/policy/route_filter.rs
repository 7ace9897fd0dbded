use linkerd_api_proto::grpc_route::GrpcFailureInjector;
use linkerd_api_proto::http_route::{
    HttpFailureInjector, Ratio, RequestHeaderModifier, RequestRedirect, ResponseHeaderModifier,
};
use linkerd_api_proto::http_types::{Headers, headers::Header};
use linkerd_api_proto::outbound::{grpc_route, http_route};

/// A filter of a [`RouteRule`](crate::RouteRule).
///
/// A policy uses the filters that its kind of route supports: gRPC routes have gRPC failures and request headers, HTTP
/// routes have all but gRPC failures.
#[derive(Clone, Debug, PartialEq)]
pub enum RouteFilter {
    /// Fails requests with an HTTP status.
    HttpFailure(HttpFailureInjector),
    /// Fails requests with a gRPC code.
    GrpcFailure(GrpcFailureInjector),
    /// Changes the headers of requests.
    RequestHeaders(RequestHeaderModifier),
    /// Changes the headers of responses.
    ResponseHeaders(ResponseHeaderModifier),
    /// Redirects requests.
    Redirect(RequestRedirect),
}

/// Changes of headers by a [`RouteFilter`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeaderChanges {
    add: Vec<Header>,
    set: Vec<Header>,
    remove: Vec<String>,
}

impl RouteFilter {
    /// Fails all requests with an HTTP status.
    pub fn fail(status: u32, message: &str) -> Self {
        Self::HttpFailure(HttpFailureInjector {
            status,
            message: message.to_owned(),
            ratio: None,
        })
    }

    /// Fails all requests with a gRPC code.
    pub fn fail_grpc(code: u32, message: &str) -> Self {
        Self::GrpcFailure(GrpcFailureInjector {
            code,
            message: message.to_owned(),
            ratio: None,
        })
    }

    /// Sets the share of requests that fail. Other filters are unchanged.
    #[must_use]
    pub fn ratio(mut self, numerator: u32, denominator: u32) -> Self {
        let share = Ratio {
            numerator,
            denominator,
        };
        match &mut self {
            Self::HttpFailure(HttpFailureInjector { ratio, .. })
            | Self::GrpcFailure(GrpcFailureInjector { ratio, .. }) => *ratio = Some(share),
            _ => {}
        }
        self
    }

    /// Changes the headers of requests.
    pub fn request_headers(changes: HeaderChanges) -> Self {
        Self::RequestHeaders(RequestHeaderModifier {
            add: changes.added(),
            set: changes.set_headers(),
            remove: changes.remove,
        })
    }

    /// Changes the headers of responses.
    pub fn response_headers(changes: HeaderChanges) -> Self {
        Self::ResponseHeaders(ResponseHeaderModifier {
            add: changes.added(),
            set: changes.set_headers(),
            remove: changes.remove,
        })
    }

    pub(super) fn http(&self) -> Option<http_route::Filter> {
        use http_route::filter::Kind;
        let kind = match self.clone() {
            Self::HttpFailure(filter) => Kind::FailureInjector(filter),
            Self::RequestHeaders(filter) => Kind::RequestHeaderModifier(filter),
            Self::ResponseHeaders(filter) => Kind::ResponseHeaderModifier(filter),
            Self::Redirect(filter) => Kind::Redirect(filter),
            Self::GrpcFailure(_) => return None,
        };
        Some(http_route::Filter { kind: Some(kind) })
    }

    pub(super) fn grpc(&self) -> Option<grpc_route::Filter> {
        use grpc_route::filter::Kind;
        let kind = match self.clone() {
            Self::GrpcFailure(filter) => Kind::FailureInjector(filter),
            Self::RequestHeaders(filter) => Kind::RequestHeaderModifier(filter),
            Self::HttpFailure(_) | Self::ResponseHeaders(_) | Self::Redirect(_) => return None,
        };
        Some(grpc_route::Filter { kind: Some(kind) })
    }
}

impl HeaderChanges {
    /// No change.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value to a header.
    #[must_use]
    pub fn add(mut self, name: &str, value: &str) -> Self {
        self.add.push(header(name, value));
        self
    }

    /// Sets a header, and replaces its values.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.set.push(header(name, value));
        self
    }

    /// Removes a header.
    #[must_use]
    pub fn remove(mut self, name: &str) -> Self {
        self.remove.push(name.to_owned());
        self
    }

    fn added(&self) -> Option<Headers> {
        headers(&self.add)
    }

    fn set_headers(&self) -> Option<Headers> {
        headers(&self.set)
    }
}

fn header(name: &str, value: &str) -> Header {
    Header {
        name: name.to_owned(),
        value: value.into(),
    }
}

fn headers(headers: &[Header]) -> Option<Headers> {
    let headers = headers.to_vec();
    (!headers.is_empty()).then_some(Headers { headers })
}
