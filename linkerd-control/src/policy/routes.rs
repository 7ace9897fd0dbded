use super::{Policy, duration};
use linkerd_api_proto::grpc_route::{GrpcRouteMatch, GrpcRpcMatch};
use linkerd_api_proto::http_route::{HttpRouteMatch, PathMatch, Timeouts, path_match};
use linkerd_api_proto::meta::{Metadata, metadata};
use linkerd_api_proto::outbound::{
    GrpcRoute, HttpRoute, OpaqueRoute, grpc_route, http_route, opaque_route,
};

/// The API has a type of its own, of the same shape, for the distribution of each kind of route.
macro_rules! distribution {
    ($kind:ident, $backends:expr, { $($field:ident),* }) => {{
        use $kind::distribution::{Empty, FirstAvailable, Kind, RandomAvailable};
        #[allow(deprecated)]
        let route_backend = |backend| $kind::RouteBackend {
            backend: Some(backend),
            filters: Vec::new(),
            $($field: None,)*
        };
        let (backends, weighted) = $backends;
        let kind = if backends.is_empty() {
            Kind::Empty(Empty {})
        } else if weighted {
            let weigh = |(backend, weight)| $kind::WeightedRouteBackend {
                backend: Some(route_backend(backend)),
                weight,
            };
            Kind::RandomAvailable(RandomAvailable {
                backends: backends.into_iter().map(weigh).collect(),
            })
        } else {
            Kind::FirstAvailable(FirstAvailable {
                backends: backends.into_iter().map(|(backend, _)| route_backend(backend)).collect(),
            })
        };
        Some($kind::Distribution { kind: Some(kind) })
    }};
}

impl Policy {
    pub(super) fn http_route(&self) -> HttpRoute {
        #[allow(deprecated)]
        let rule = http_route::Rule {
            matches: vec![HttpRouteMatch {
                path: Some(PathMatch {
                    kind: Some(path_match::Kind::Prefix("/".to_owned())),
                }),
                ..HttpRouteMatch::default()
            }],
            filters: Vec::new(),
            backends: distribution!(http_route, self.backends(), { request_timeout }),
            request_timeout: None,
            timeouts: self.timeouts(),
            retry: None,
            allow_l5d_request_headers: false,
        };
        HttpRoute {
            metadata: default("http"),
            hosts: Vec::new(),
            rules: vec![rule],
        }
    }

    pub(super) fn grpc_route(&self) -> GrpcRoute {
        #[allow(deprecated)]
        let rule = grpc_route::Rule {
            matches: vec![GrpcRouteMatch {
                // Empty names match all.
                rpc: Some(GrpcRpcMatch::default()),
                headers: Vec::new(),
            }],
            filters: Vec::new(),
            backends: distribution!(grpc_route, self.backends(), { request_timeout }),
            request_timeout: None,
            timeouts: self.timeouts(),
            retry: None,
            allow_l5d_request_headers: false,
        };
        GrpcRoute {
            metadata: default("grpc"),
            hosts: Vec::new(),
            rules: vec![rule],
        }
    }

    pub(super) fn opaque_route(&self) -> OpaqueRoute {
        OpaqueRoute {
            metadata: default("opaque"),
            rules: vec![opaque_route::Rule {
                backends: distribution!(opaque_route, self.backends(), {}),
                filters: Vec::new(),
            }],
        }
    }

    fn timeouts(&self) -> Option<Timeouts> {
        self.request_timeout.map(|timeout| Timeouts {
            request: duration(timeout),
            ..Timeouts::default()
        })
    }
}

fn default(name: &str) -> Option<Metadata> {
    Some(Metadata {
        kind: Some(metadata::Kind::Default(name.to_owned())),
    })
}
