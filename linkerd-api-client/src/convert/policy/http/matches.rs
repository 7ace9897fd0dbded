//! Conditions on requests.

use super::super::{invalid::InvalidPolicy, parts::required};
use ::http::{HeaderName, Method};
use linkerd_api_proto::{grpc_route as wire_grpc, http_route as wire, http_types};
use linkerd_profiles::{
    GrpcMatch, HeaderMatch, HttpMatch, PathMatch, Pattern, QueryMatch, RequestMatch, ValueMatch,
};
use std::collections::HashMap;

/// The regular expressions of a policy. Each is compiled once, and there is room for [`MAX_PATTERNS`].
#[derive(Default)]
pub struct Patterns(HashMap<String, Pattern>);

/// The regular expressions of one protocol of a policy; each may need a few hundred KB.
const MAX_PATTERNS: usize = 256;

impl Patterns {
    /// Converts a condition of an HTTP route.
    pub(super) fn http(
        &mut self,
        wire: wire::HttpRouteMatch,
    ) -> Result<RequestMatch, InvalidPolicy> {
        let query = wire.query_params.into_iter().map(|wire| self.query(wire));
        Ok(RequestMatch::Http(HttpMatch {
            query: query.collect::<Result<_, _>>()?,
            path: wire.path.map(|wire| self.path(wire)).transpose()?,
            headers: self.headers(wire.headers)?,
            method: wire.method.map(method).transpose()?,
        }))
    }

    /// Converts a condition of a gRPC route.
    pub(super) fn grpc(
        &mut self,
        wire: wire_grpc::GrpcRouteMatch,
    ) -> Result<RequestMatch, InvalidPolicy> {
        let rpc = wire.rpc.unwrap_or_default();
        let named = |name: String| Some(name).filter(|name| !name.is_empty());
        Ok(RequestMatch::Grpc(GrpcMatch {
            service: named(rpc.service),
            method: named(rpc.method),
            headers: self.headers(wire.headers)?,
        }))
    }

    fn path(&mut self, wire: wire::PathMatch) -> Result<PathMatch, InvalidPolicy> {
        use wire::path_match::Kind;
        Ok(match required(wire.kind, "a path match")? {
            Kind::Exact(path) => PathMatch::Exact(path),
            Kind::Prefix(prefix) => PathMatch::Prefix(prefix),
            Kind::Regex(regex) => PathMatch::Regex(self.pattern(regex)?),
        })
    }

    fn headers(&mut self, wire: Vec<wire::HeaderMatch>) -> Result<Vec<HeaderMatch>, InvalidPolicy> {
        use wire::header_match::Value;
        wire.into_iter()
            .map(|wire| {
                Ok(HeaderMatch {
                    name: HeaderName::try_from(&wire.name)
                        .map_err(|_| InvalidPolicy::HeaderName(wire.name))?,
                    value: match required(wire.value, "the value of a header match")? {
                        Value::Exact(exact) => ValueMatch::Exact(exact),
                        Value::Regex(regex) => ValueMatch::Regex(self.pattern(regex)?),
                    },
                })
            })
            .collect()
    }

    fn query(&mut self, wire: wire::QueryParamMatch) -> Result<QueryMatch, InvalidPolicy> {
        use wire::query_param_match::Value;
        Ok(QueryMatch {
            name: wire.name,
            value: match required(wire.value, "the value of a query match")? {
                Value::Exact(exact) => ValueMatch::Exact(exact),
                Value::Regex(regex) => ValueMatch::Regex(self.pattern(regex)?),
            },
        })
    }

    fn pattern(&mut self, text: String) -> Result<Pattern, InvalidPolicy> {
        if let Some(known) = self.0.get(&text) {
            return Ok(known.clone());
        }
        if self.0.len() == MAX_PATTERNS {
            return Err(InvalidPolicy::Patterns(MAX_PATTERNS));
        }
        let pattern = Pattern::new(&text)?;
        self.0.insert(text, pattern.clone());
        Ok(pattern)
    }
}

fn method(wire: http_types::HttpMethod) -> Result<Method, InvalidPolicy> {
    use http_types::http_method::{Registered, Type};
    let name = match required(wire.r#type, "a method match")? {
        Type::Registered(number) => match Registered::try_from(number) {
            Ok(registered) => registered.as_str_name().to_owned(),
            Err(_) => return Err(InvalidPolicy::Method(number.to_string())),
        },
        Type::Unregistered(name) => name,
    };
    Method::from_bytes(name.as_bytes()).map_err(|_| InvalidPolicy::Method(name))
}
