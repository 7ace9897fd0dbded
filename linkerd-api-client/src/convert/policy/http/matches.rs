//! Conditions on requests.

use super::super::{invalid::InvalidPolicy, parts::required};
use crate::convert::{method::method, patterns::Patterns};
use ::http::HeaderName;
use linkerd_api_proto::{grpc_route as wire_grpc, http_route as wire};
use linkerd_profiles::{
    GrpcMatch, HeaderMatch, HttpMatch, PathMatch, QueryMatch, RequestMatch, ValueMatch,
};

/// Converts the conditions of a policy.
#[derive(Default)]
pub(in crate::convert) struct Matches(Patterns);

impl Matches {
    /// Converts a condition of an HTTP route.
    pub(in crate::convert) fn http(
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

    /// Converts the conditions of a rule of a gRPC route.
    pub(in crate::convert) fn grpc_all(
        &mut self,
        all: Vec<wire_grpc::GrpcRouteMatch>,
    ) -> Result<Vec<RequestMatch>, InvalidPolicy> {
        match all.is_empty() {
            true => Ok(vec![RequestMatch::Every]),
            false => all.into_iter().map(|wire| self.grpc(wire)).collect(),
        }
    }

    fn grpc(&mut self, wire: wire_grpc::GrpcRouteMatch) -> Result<RequestMatch, InvalidPolicy> {
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
            Kind::Regex(regex) => PathMatch::Regex(self.0.get(regex)?),
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
                        Value::Regex(regex) => ValueMatch::Regex(self.0.get(regex)?),
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
                Value::Regex(regex) => ValueMatch::Regex(self.0.get(regex)?),
            },
        })
    }
}
