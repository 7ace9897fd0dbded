//! gRPC routes.

use super::*;
use linkerd_api_proto::{grpc_route::GrpcRouteMatch, outbound::grpc_route};
use linkerd_profiles::HttpFilter;

/// A rule that balances, with these matches and filters.
pub(super) fn rule(
    matches: Vec<GrpcRouteMatch>,
    filters: Vec<grpc_route::Filter>,
) -> grpc_route::Rule {
    use grpc_route::distribution::{FirstAvailable, Kind};
    let backend = grpc_route::RouteBackend {
        backend: Some(balancer("web:80")),
        ..Default::default()
    };
    let kind = Kind::FirstAvailable(FirstAvailable {
        backends: vec![backend],
    });
    grpc_route::Rule {
        matches,
        filters,
        backends: Some(grpc_route::Distribution { kind: Some(kind) }),
        ..Default::default()
    }
}

/// A gRPC policy of one route.
pub(super) fn policy(rules: Vec<grpc_route::Rule>) -> OutboundPolicy {
    let route = outbound::GrpcRoute {
        metadata: wire_meta("grpc"),
        rules,
        ..Default::default()
    };
    let grpc = proxy_protocol::Grpc {
        routes: vec![route],
        failure_accrual: None,
    };
    OutboundPolicy {
        metadata: wire_meta("parent"),
        protocol: Some(outbound::ProxyProtocol {
            kind: Some(proxy_protocol::Kind::Grpc(grpc)),
        }),
    }
}

#[test]
fn grpc_rules_are_converted_like_those_of_http() {
    let metadata = |name: Option<&str>| {
        let mut policy = policy(vec![rule(Vec::new(), Vec::new())]);
        let kind = policy.protocol.as_mut().unwrap().kind.as_mut();
        let Some(proxy_protocol::Kind::Grpc(grpc)) = kind else {
            panic!("{kind:?}");
        };
        grpc.routes[0].metadata = name.and_then(wire_meta);
        policy
    };
    let read = converted(metadata(Some("grpc")));
    let table = read.http_routes(::http::Version::HTTP_2).unwrap();
    assert_eq!(table.rules()[0].meta.to_string(), "default.grpc");
    assert_eq!(
        refused(metadata(None)),
        "a gRPC route's metadata is missing"
    );
}

#[test]
fn filters_are_those_of_the_rule_or_of_its_use_of_a_backend() {
    use grpc_route::{Distribution, distribution::Kind, filter};
    let injector = grpc_route::Filter {
        kind: Some(filter::Kind::FailureInjector(Default::default())),
    };
    let on_rule = rule(Vec::new(), vec![injector.clone()]);
    let mut on_backend = rule(Vec::new(), Vec::new());
    let Some(Distribution {
        kind: Some(Kind::FirstAvailable(first)),
    }) = &mut on_backend.backends
    else {
        panic!("{on_backend:?}");
    };
    first.backends[0].filters.push(injector);
    let read = converted(policy(vec![on_rule, on_backend]));
    let table = read.http_routes(::http::Version::HTTP_2).unwrap();
    let injects = |filters: &[HttpFilter]| matches!(filters, [HttpFilter::InjectFailure(_)]);
    let injecting = table.rules().iter().map(|rule| {
        let used = rule.distribution.backends().next().unwrap();
        (injects(&rule.filters), injects(&used.filters))
    });
    assert_eq!(
        injecting.collect::<Vec<_>>(),
        [(true, false), (false, true)]
    );
}
