use super::{
    Policy, Route, RouteFilter, RouteMatch, RouteRetry, RouteRule, RouteTimeouts,
    route::route_metadata,
};
use linkerd_api_proto::http_route::Timeouts;
use linkerd_api_proto::meta::{Metadata, metadata};
use linkerd_api_proto::outbound::{
    GrpcRoute, HttpRoute, OpaqueRoute, TlsRoute as WireTlsRoute, grpc_route, http_route,
    opaque_route, tls_route,
};

/// The API has a separate type, of the same shape, for the distribution of each kind of route.
macro_rules! distribution {
    ($kind:ident, $backends:expr, $filters:expr, { $($field:ident),* }) => {{
        use $kind::distribution::{Empty, FirstAvailable, Kind, RandomAvailable};
        let filters: Vec<$kind::Filter> = $filters;
        #[allow(deprecated)]
        let route_backend = |backend| $kind::RouteBackend {
            backend: Some(backend),
            filters: filters.clone(),
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
    /// The declared routes, or one for every request if there are none.
    pub(super) fn http_routes(&self) -> Vec<HttpRoute> {
        let namespace = self.parent.namespace();
        let routes = self.routes.iter().map(|route| HttpRoute {
            metadata: Some(route.metadata("HTTPRoute", namespace)),
            hosts: route.hosts.clone(),
            rules: route
                .rules
                .iter()
                .map(|rule| self.http_rule(rule))
                .collect(),
        });
        let mut routes: Vec<_> = routes.collect();
        if routes.is_empty() {
            routes.push(HttpRoute {
                metadata: default("http"),
                hosts: Vec::new(),
                rules: vec![self.http_rule(&RouteRule::new().when(RouteMatch::prefix("/")))],
            });
        }
        routes
    }

    /// The declared routes, or one for every call if there are none.
    pub(super) fn grpc_routes(&self) -> Vec<GrpcRoute> {
        let namespace = self.parent.namespace();
        let routes = self.routes.iter().map(|route: &Route| GrpcRoute {
            metadata: Some(route.metadata("GRPCRoute", namespace)),
            hosts: route.hosts.clone(),
            rules: route
                .rules
                .iter()
                .map(|rule| self.grpc_rule(rule))
                .collect(),
        });
        let mut routes: Vec<_> = routes.collect();
        if routes.is_empty() {
            routes.push(GrpcRoute {
                metadata: default("grpc"),
                hosts: Vec::new(),
                // Empty names match all.
                rules: vec![self.grpc_rule(&RouteRule::new().when(RouteMatch::rpc("", "")))],
            });
        }
        routes
    }

    fn http_rule(&self, rule: &RouteRule) -> http_route::Rule {
        let filters =
            |filters: &[RouteFilter]| filters.iter().filter_map(RouteFilter::http).collect();
        #[allow(deprecated)]
        http_route::Rule {
            matches: rule.matches.iter().map(RouteMatch::http).collect(),
            filters: filters(&rule.filters),
            backends: distribution!(
                http_route,
                self.backends(rule.dispatch.as_ref()),
                filters(&rule.backend_filters),
                { request_timeout }
            ),
            request_timeout: None,
            timeouts: self.timeouts(rule),
            retry: rule.retry.as_ref().map(RouteRetry::http),
            allow_l5d_request_headers: rule.allows_request_headers,
        }
    }

    fn grpc_rule(&self, rule: &RouteRule) -> grpc_route::Rule {
        let filters =
            |filters: &[RouteFilter]| filters.iter().filter_map(RouteFilter::grpc).collect();
        #[allow(deprecated)]
        grpc_route::Rule {
            matches: rule.matches.iter().map(RouteMatch::grpc).collect(),
            filters: filters(&rule.filters),
            backends: distribution!(
                grpc_route,
                self.backends(rule.dispatch.as_ref()),
                filters(&rule.backend_filters),
                { request_timeout }
            ),
            request_timeout: None,
            timeouts: self.timeouts(rule),
            retry: rule.retry.as_ref().map(RouteRetry::grpc),
            allow_l5d_request_headers: rule.allows_request_headers,
        }
    }

    pub(super) fn opaque_route(&self) -> OpaqueRoute {
        OpaqueRoute {
            metadata: default("opaque"),
            rules: vec![opaque_route::Rule {
                backends: distribution!(opaque_route, self.backends(None), Vec::new(), {}),
                filters: Vec::new(),
            }],
        }
    }

    /// The declared TLS routes.
    pub(super) fn tls_routes(&self) -> Vec<WireTlsRoute> {
        let namespace = self.parent.namespace();
        let routes = self.tls_routes.iter().map(|route| WireTlsRoute {
            metadata: Some(route_metadata("TLSRoute", &route.name, namespace)),
            snis: route.snis.clone(),
            rules: vec![tls_route::Rule {
                backends: distribution!(
                    tls_route,
                    self.backends(route.dispatch.as_ref()),
                    Vec::new(),
                    {}
                ),
                filters: route.filters.clone(),
            }],
        });
        routes.collect()
    }

    fn timeouts(&self, rule: &RouteRule) -> Option<Timeouts> {
        let of_policy = || {
            self.request_timeout
                .map(|limit| RouteTimeouts::new().request(limit))
        };
        let timeouts = rule.timeouts.or_else(of_policy);
        timeouts.map(|timeouts| timeouts.message())
    }
}

fn default(name: &str) -> Option<Metadata> {
    Some(Metadata {
        kind: Some(metadata::Kind::Default(name.to_owned())),
    })
}
