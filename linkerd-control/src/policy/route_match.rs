use linkerd_api_proto::grpc_route::{GrpcRouteMatch, GrpcRpcMatch};
use linkerd_api_proto::http_route::{
    HeaderMatch, HttpRouteMatch, PathMatch, QueryParamMatch, header_match, path_match,
    query_param_match,
};
use linkerd_api_proto::http_types::{HttpMethod, http_method};

/// A match of a [`RouteRule`](crate::RouteRule), all of whose parts must hold.
///
/// A gRPC policy uses its service, method ([`RouteMatch::rpc`]) and headers; every other policy uses all but the first two.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RouteMatch {
    path: Option<path_match::Kind>,
    rpc: GrpcRpcMatch,
    headers: Vec<HeaderMatch>,
    query: Vec<QueryParamMatch>,
    method: Option<HttpMethod>,
}

impl RouteMatch {
    /// Matches every request, until further conditions are added.
    pub fn any() -> Self {
        Self::default()
    }

    /// A whole path.
    pub fn exact(path: impl Into<String>) -> Self {
        Self::path(path_match::Kind::Exact(path.into()))
    }

    /// The first segments of a path.
    pub fn prefix(path: impl Into<String>) -> Self {
        Self::path(path_match::Kind::Prefix(path.into()))
    }

    /// A whole path by a regular expression.
    pub fn regex(path: impl Into<String>) -> Self {
        Self::path(path_match::Kind::Regex(path.into()))
    }

    /// A gRPC service and method. Empty names match all.
    pub fn rpc(service: impl Into<String>, method: impl Into<String>) -> Self {
        Self {
            rpc: GrpcRpcMatch {
                service: service.into(),
                method: method.into(),
            },
            ..Self::default()
        }
    }

    fn path(path: path_match::Kind) -> Self {
        Self {
            path: Some(path),
            ..Self::default()
        }
    }

    /// Adds a header with a value.
    #[must_use]
    pub fn header(self, name: &str, value: &str) -> Self {
        self.header_value(name, header_match::Value::Exact(value.into()))
    }

    /// Adds a header with a value by a regular expression.
    #[must_use]
    pub fn header_regex(self, name: &str, regex: &str) -> Self {
        self.header_value(name, header_match::Value::Regex(regex.to_owned()))
    }

    /// Adds a query parameter with a value.
    #[must_use]
    pub fn query(self, name: &str, value: &str) -> Self {
        self.query_value(name, query_param_match::Value::Exact(value.to_owned()))
    }

    /// Adds a query parameter with a value by a regular expression.
    #[must_use]
    pub fn query_regex(self, name: &str, regex: &str) -> Self {
        self.query_value(name, query_param_match::Value::Regex(regex.to_owned()))
    }

    /// Sets the HTTP method.
    #[must_use]
    pub fn method(mut self, name: &str) -> Self {
        use http_method::{Registered, Type};
        let kind = match Registered::from_str_name(name) {
            Some(registered) => Type::Registered(registered.into()),
            None => Type::Unregistered(name.to_owned()),
        };
        self.method = Some(HttpMethod { r#type: Some(kind) });
        self
    }

    fn header_value(mut self, name: &str, value: header_match::Value) -> Self {
        self.headers.push(HeaderMatch {
            name: name.to_owned(),
            value: Some(value),
        });
        self
    }

    fn query_value(mut self, name: &str, value: query_param_match::Value) -> Self {
        self.query.push(QueryParamMatch {
            name: name.to_owned(),
            value: Some(value),
        });
        self
    }

    pub(crate) fn http(&self) -> HttpRouteMatch {
        HttpRouteMatch {
            path: self.path.clone().map(|kind| PathMatch { kind: Some(kind) }),
            headers: self.headers.clone(),
            query_params: self.query.clone(),
            method: self.method.clone(),
        }
    }

    pub(crate) fn grpc(&self) -> GrpcRouteMatch {
        GrpcRouteMatch {
            rpc: Some(self.rpc.clone()),
            headers: self.headers.clone(),
        }
    }
}
