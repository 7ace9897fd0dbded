//! gRPC routes.

use super::*;
use linkerd_api_proto::outbound::grpc_route;
use linkerd_profiles::HttpFilter;

#[test]
fn grpc_rules_are_converted_like_those_of_http() {
    use grpc_route::{
        Distribution as Wire, Filter, RouteBackend, Rule,
        distribution::{FirstAvailable, Kind},
        filter,
    };
    let rule = |on_rule: bool, on_backend: bool| {
        let filters = |injects: bool| {
            let kind = filter::Kind::FailureInjector(Default::default());
            let filter = Filter { kind: Some(kind) };
            Vec::from_iter(injects.then_some(filter))
        };
        let backend = RouteBackend {
            backend: Some(balancer("web:80")),
            filters: filters(on_backend),
            ..Default::default()
        };
        let kind = Kind::FirstAvailable(FirstAvailable {
            backends: vec![backend],
        });
        Rule {
            filters: filters(on_rule),
            backends: Some(Wire { kind: Some(kind) }),
            ..Default::default()
        }
    };
    let route = outbound::GrpcRoute {
        metadata: wire_meta("grpc"),
        rules: vec![rule(false, false), rule(true, false), rule(false, true)],
        ..Default::default()
    };
    let policy = |metadata| {
        let grpc = proxy_protocol::Grpc {
            routes: vec![outbound::GrpcRoute {
                metadata,
                ..route.clone()
            }],
            failure_accrual: None,
        };
        OutboundPolicy {
            metadata: wire_meta("parent"),
            protocol: Some(outbound::ProxyProtocol {
                kind: Some(proxy_protocol::Kind::Grpc(grpc)),
            }),
        }
    };
    let read = converted(policy(wire_meta("grpc")));
    assert!(read.not_honoured.is_empty());
    let table = read.http_routes(::http::Version::HTTP_2).unwrap();
    let injects = |filters: &[HttpFilter]| {
        let injects = |filter: &HttpFilter| matches!(filter, HttpFilter::InjectFailure(_));
        filters.iter().any(injects)
    };
    let injecting = table.rules().iter().map(|rule| {
        let mut backends = rule.distribution.backends();
        injects(&rule.filters) || backends.any(|used| injects(&used.filters))
    });
    assert_eq!(injecting.collect::<Vec<_>>(), [false, true, true]);
    assert_eq!(refused(policy(None)), "a gRPC route's metadata is missing");
}
