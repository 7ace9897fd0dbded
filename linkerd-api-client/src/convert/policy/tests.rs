mod accrual;
mod detect;
mod filters;
mod grpc;
mod limits;
mod matches;

use super::*;
use linkerd_api_proto::{
    destination::WeightedAddr,
    http_route as wire_match, opaque_route as wire_opaque,
    outbound::{self, backend, http_route, opaque_route, proxy_protocol},
};
use linkerd_api_proto::{meta as wire_meta, prost_types};
use linkerd_profiles::{Dispatcher, Distribution, PeakEwma, RouteRule, TcpFilter};
use proptest::prelude::*;
use std::time::Duration;

fn wire_meta(name: &str) -> Option<wire_meta::Metadata> {
    Some(wire_meta::Metadata {
        kind: Some(wire_meta::metadata::Kind::Default(name.into())),
    })
}

fn secs(seconds: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos: 0 })
}

fn balancer(path: &str) -> outbound::Backend {
    let peak_ewma = backend::balance_p2c::PeakEwma {
        default_rtt: secs(1),
        decay: secs(10),
    };
    outbound::Backend {
        metadata: wire_meta("backend"),
        queue: Some(outbound::Queue {
            capacity: 100,
            failfast_timeout: secs(3),
        }),
        kind: Some(backend::Kind::Balancer(backend::BalanceP2c {
            discovery: Some(backend::EndpointDiscovery {
                kind: Some(backend::endpoint_discovery::Kind::Dst(
                    backend::endpoint_discovery::DestinationGet { path: path.into() },
                )),
            }),
            load: Some(backend::balance_p2c::Load::PeakEwma(peak_ewma)),
        })),
    }
}

fn random(weights: &[u32]) -> http_route::Distribution {
    use http_route::distribution::{Kind, RandomAvailable};
    let backends = weights.iter().enumerate().map(|(n, weight)| {
        let backend = http_route::RouteBackend {
            backend: Some(balancer(&format!("web-{n}:80"))),
            ..Default::default()
        };
        http_route::WeightedRouteBackend {
            backend: Some(backend),
            weight: *weight,
        }
    });
    http_route::Distribution {
        kind: Some(Kind::RandomAvailable(RandomAvailable {
            backends: backends.collect(),
        })),
    }
}

fn first(backend: outbound::Backend) -> http_route::Distribution {
    use http_route::distribution::{FirstAvailable, Kind};
    http_route::Distribution {
        kind: Some(Kind::FirstAvailable(FirstAvailable {
            backends: vec![http_route::RouteBackend {
                backend: Some(backend),
                ..Default::default()
            }],
        })),
    }
}

fn rule(backends: http_route::Distribution) -> http_route::Rule {
    http_route::Rule {
        backends: Some(backends),
        ..Default::default()
    }
}

fn route(name: &str, rules: Vec<http_route::Rule>) -> outbound::HttpRoute {
    outbound::HttpRoute {
        metadata: wire_meta(name),
        rules,
        ..Default::default()
    }
}

fn http1(routes: Vec<outbound::HttpRoute>) -> OutboundPolicy {
    OutboundPolicy {
        metadata: wire_meta("parent"),
        protocol: Some(outbound::ProxyProtocol {
            kind: Some(proxy_protocol::Kind::Http1(proxy_protocol::Http1 {
                routes,
                failure_accrual: None,
            })),
        }),
    }
}

/// A policy that balances HTTP/1 over `path`.
fn balanced(path: &str) -> OutboundPolicy {
    http1(vec![route("route", vec![rule(first(balancer(path)))])])
}

fn converted(policy: OutboundPolicy) -> ClientPolicy {
    let policy = client_policy(policy);
    assert_eq!(policy.invalid, None);
    policy
}

fn refused(policy: OutboundPolicy) -> String {
    let reason = client_policy(policy).invalid.expect("must be refused");
    // The rule in front of it has a test of its own.
    match reason
        .strip_prefix("rule ")
        .and_then(|reason| reason.split_once(": "))
    {
        Some((_, reason)) => reason.to_owned(),
        None => reason,
    }
}

fn default_route(policy: &ClientPolicy) -> &RouteRule {
    find(policy).unwrap()
}

fn find(policy: &ClientPolicy) -> Option<&RouteRule> {
    policy
        .http_routes(::http::Version::HTTP_11)?
        .rules()
        .first()
}

#[test]
fn a_balancer_is_read() {
    let policy = converted(balanced("Web.Default.svc.cluster.local.:80"));
    assert_eq!(policy.parent.to_string(), "default.parent");
    let Distribution::FirstAvailable(backends) = &default_route(&policy).distribution else {
        panic!("one backend");
    };
    let load = PeakEwma {
        default_rtt: Duration::from_secs(1),
        decay: Duration::from_secs(10),
        penalty: None,
    };
    let destination = "web.default.svc.cluster.local:80".parse().unwrap();
    let expected = Dispatcher::Balance {
        destination,
        load,
        breaker: None,
    };
    assert_eq!(backends[0].backend.dispatcher, expected);
}

#[test]
fn distributions_can_always_be_drawn_from() {
    let read = |weights: &[u32]| http1(vec![route("r", vec![rule(random(weights))])]);
    match &default_route(&converted(read(&[1, 0, 3]))).distribution {
        Distribution::RandomAvailable(backends) => {
            let weights: Vec<_> = backends.iter().map(|(_, weight)| *weight).collect();
            assert_eq!(weights, [1, 3]);
        }
        distribution => panic!("{distribution:?}"),
    }
    assert!(matches!(
        default_route(&converted(read(&[0, 7]))).distribution,
        Distribution::FirstAvailable(_)
    ));
    for weights in [&[0, 0][..], &[]] {
        let policy = converted(read(weights));
        let distribution = &default_route(&policy).distribution;
        assert_eq!(distribution, &Distribution::Weightless);
    }
    assert_eq!(
        refused(read(&[u32::MAX, 1])),
        "the weights of a distribution exceed 32 bits"
    );
}

#[test]
fn an_invalid_rule_is_named_by_its_number_and_its_route() {
    let mut backend = balancer("web:80");
    backend.queue = None;
    let rules = vec![rule(first(balancer("web:80"))), rule(first(backend))];
    let routes = vec![
        route("good", vec![rule(first(balancer("web:80")))]),
        route("bad", rules),
    ];
    let reason = client_policy(http1(routes)).invalid.unwrap();
    assert_eq!(
        reason,
        "rule 2 of default/bad: a backend's queue is missing"
    );
}

#[test]
fn bad_policies_say_why() {
    let policy = balanced("no-port");
    assert_eq!(
        refused(policy),
        "a balancer's destination must be `name:port`, and \"no-port\" is not"
    );
    assert_eq!(
        refused(OutboundPolicy::default()),
        "the policy's metadata is missing"
    );
    let mut backend = balancer("web:80");
    backend.queue = None;
    assert_eq!(
        refused(http1(vec![route("r", vec![rule(first(backend))])])),
        "a backend's queue is missing"
    );
    let mut backend = balancer("web:80");
    backend.kind = Some(backend::Kind::Forward(WeightedAddr::default()));
    assert_eq!(
        refused(http1(vec![route("r", vec![rule(first(backend))])])),
        "cannot forward: an endpoint has no address"
    );
    let mut policy = balanced("web:80");
    policy.metadata = Some(wire_meta::Metadata {
        kind: Some(wire_meta::metadata::Kind::Resource(wire_meta::Resource {
            group: "core".into(),
            ..Default::default()
        })),
    });
    assert_eq!(refused(policy), "a resource reference has no kind");
    let invalid = ClientPolicy::invalid("x");
    assert_eq!(invalid.parent.to_string(), "default.invalid");
    assert_eq!(find(&invalid), None);
}

#[test]
fn a_change_of_the_queue_is_none() {
    let mut backend = balancer("web:80");
    let queue = backend.queue.as_mut().unwrap();
    queue.capacity = 7;
    queue.failfast_timeout = secs(9);
    let changed = http1(vec![route("route", vec![rule(first(backend))])]);
    assert_eq!(converted(changed), converted(balanced("web:80")));
    let mut backend = balancer("web:80");
    backend.queue.as_mut().unwrap().failfast_timeout = secs(-1);
    assert_eq!(
        refused(http1(vec![route("r", vec![rule(first(backend))])])),
        "a queue's failfast timeout is no duration"
    );
}

#[test]
fn a_backend_without_a_dispatcher_fails_alone() {
    let mut backend = balancer("web:80");
    backend.kind = None;
    let policy = converted(http1(vec![route("r", vec![rule(first(backend))])]));
    let backend = default_route(&policy)
        .distribution
        .backends()
        .next()
        .unwrap();
    assert_eq!(
        backend.backend.dispatcher,
        Dispatcher::Fail("backend default.backend has no dispatcher".into())
    );
}

#[test]
fn timeouts_and_retries_are_acted_on() {
    let mut rule = rule(first(balancer("web:80")));
    rule.retry = Some(http_route::Retry::default());
    rule.timeouts = Some(wire_match::Timeouts {
        request: secs(1),
        ..Default::default()
    });
    let policy = converted(http1(vec![route("r", vec![rule.clone(), rule])]));
    assert!(default_route(&policy).retry.is_some());
    let limit = default_route(&policy).timeouts.request;
    assert_eq!(limit, Some(Duration::from_secs(1)));
}

#[test]
fn opaque_traffic_has_one_route_with_one_rule() {
    use opaque_route::{Distribution as Wire, Filter, Rule, distribution, filter};
    let rule = Rule {
        backends: Some(Wire {
            kind: Some(distribution::Kind::Empty(distribution::Empty {})),
        }),
        filters: vec![Filter {
            kind: Some(filter::Kind::Forbidden(wire_opaque::Forbidden {})),
        }],
    };
    let read = |routes: usize, rules: usize| {
        let route = outbound::OpaqueRoute {
            metadata: wire_meta("tcp"),
            rules: vec![rule.clone(); rules],
        };
        let opaque = proxy_protocol::Opaque {
            routes: vec![route; routes],
        };
        OutboundPolicy {
            metadata: wire_meta("parent"),
            protocol: Some(outbound::ProxyProtocol {
                kind: Some(proxy_protocol::Kind::Opaque(opaque)),
            }),
        }
    };
    let policy = converted(read(1, 1));
    let route = policy.opaque_route().unwrap();
    assert_eq!(route.filter, Some(TcpFilter::Forbidden));
    assert_eq!(route.distribution, Distribution::Empty);
    assert_eq!(converted(read(0, 1)).opaque_route(), None);
    assert_eq!(
        refused(read(2, 1)),
        "opaque traffic has 2 routes; at most one is possible"
    );
    assert_eq!(
        refused(read(1, 0)),
        "a TCP or TLS route has 0 rules; it must have one"
    );
}

/// A newer control plane may have kinds that this proxy does not know, and that arrive as none.
#[test]
fn an_unknown_filter_or_match_of_connections_lets_nothing_through() {
    let backends = || {
        Some(opaque_route::Distribution {
            kind: Some(opaque_route::distribution::Kind::Empty(Default::default())),
        })
    };
    let opaque = outbound::OpaqueRoute {
        metadata: wire_meta("tcp"),
        rules: vec![opaque_route::Rule {
            backends: backends(),
            filters: vec![opaque_route::Filter { kind: None }],
        }],
    };
    let of = |kind| OutboundPolicy {
        metadata: wire_meta("parent"),
        protocol: Some(outbound::ProxyProtocol { kind: Some(kind) }),
    };
    let kind = proxy_protocol::Kind::Opaque(proxy_protocol::Opaque {
        routes: vec![opaque],
    });
    assert_eq!(refused(of(kind)), "an opaque route's filter is missing");

    let empty = outbound::tls_route::distribution::Kind::Empty(Default::default());
    let tls = |snis, filters| {
        let rule = outbound::tls_route::Rule {
            backends: Some(outbound::tls_route::Distribution {
                kind: Some(empty.clone()),
            }),
            filters,
        };
        let route = outbound::TlsRoute {
            metadata: wire_meta("tls"),
            snis,
            rules: vec![rule],
        };
        of(proxy_protocol::Kind::Tls(proxy_protocol::Tls {
            routes: vec![route],
        }))
    };
    let filter = outbound::tls_route::Filter { kind: None };
    assert_eq!(
        refused(tls(vec![], vec![filter])),
        "a TLS route's filter is missing"
    );
    let sni = linkerd_api_proto::tls_route::SniMatch { r#match: None };
    assert_eq!(
        refused(tls(vec![sni], vec![])),
        "a match of a server name is missing"
    );
}

proptest! {
    /// No bytes make the conversion panic: messages are decoded from random bytes inserted into valid ones.
    #[test]
    fn any_message_is_converted(noise: Vec<u8>, at: prop::sample::Index, weights: Vec<u32>) {
        use prost::Message;
        let routes = vec![route("r", vec![rule(random(&weights))])];
        let mut bytes = http1(routes).encode_to_vec();
        let at = at.index(bytes.len());
        let end = bytes.len().min(at + noise.len());
        bytes.splice(at..end, noise.clone());
        if let Ok(policy) = OutboundPolicy::decode(&bytes[..]) {
            let _ = client_policy(policy);
        }
    }

    /// With any weights, the distribution can be drawn from or the policy is refused.
    #[test]
    fn any_weights(weights in proptest::collection::vec(prop_oneof![0u32..3, any::<u32>()], 0..6)) {
        let policy = client_policy(http1(vec![route("r", vec![rule(random(&weights))])]));
        match find(&policy).map(|rule| &rule.distribution) {
            None => prop_assert!(policy.invalid.is_some()),
            Some(Distribution::RandomAvailable(backends)) => {
                prop_assert!(backends.len() > 1);
                prop_assert!(backends.iter().all(|(_, weight)| *weight > 0));
                let sum: u64 = backends.iter().map(|(_, weight)| u64::from(*weight)).sum();
                prop_assert!(u32::try_from(sum).is_ok());
            }
            Some(Distribution::FirstAvailable(backends)) => prop_assert_eq!(backends.len(), 1),
            Some(Distribution::Weightless) => {
                prop_assert!(weights.iter().all(|weight| *weight == 0));
            }
            Some(Distribution::Empty) => prop_assert!(false),
        }
    }
}
