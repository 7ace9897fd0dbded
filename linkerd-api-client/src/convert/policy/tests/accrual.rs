//! Circuit breakers, and penalties on the load.

use super::*;
use linkerd_api_proto::outbound::{
    ExponentialBackoff, FailureAccrual as Wire,
    failure_accrual::{ConsecutiveFailures, Kind, Unified},
};
use linkerd_profiles::{Backend, FailureAccrual, LoadPenalty, SuccessRate};
use linkerd_proxy_core::Backoff;

fn backoff() -> Option<ExponentialBackoff> {
    Some(ExponentialBackoff {
        min_backoff: secs(1),
        max_backoff: secs(60),
        jitter_ratio: 0.5,
        respect_retry_after_hint: true,
    })
}

pub(super) fn consecutive(max_failures: u32) -> Wire {
    Wire {
        kind: Some(Kind::ConsecutiveFailures(ConsecutiveFailures {
            max_failures,
            backoff: backoff(),
        })),
        ejection: None,
    }
}

fn unified() -> Unified {
    Unified {
        success_rate_threshold: 0.995,
        decay: secs(20),
        min_requests: 30,
        max_consecutive_failures: 7,
        backoff: backoff(),
    }
}

fn policy(accrual: Wire) -> OutboundPolicy {
    let mut policy = balanced("web:80");
    if let Some(proxy_protocol::Kind::Http1(http1)) = &mut policy.protocol.as_mut().unwrap().kind {
        http1.failure_accrual = Some(accrual);
    }
    policy
}

fn of(kind: Kind) -> OutboundPolicy {
    policy(Wire {
        kind: Some(kind),
        ejection: None,
    })
}

fn first_backend(policy: &ClientPolicy) -> Backend {
    let backends = &default_route(policy).distribution;
    backends.backends().next().unwrap().backend.clone()
}

fn breaker(policy: OutboundPolicy) -> Option<FailureAccrual> {
    let policy = converted(policy);
    match first_backend(&policy).dispatcher {
        Dispatcher::Balance { breaker, .. } => breaker.map(|breaker| *breaker),
        dispatcher => panic!("{dispatcher:?}"),
    }
}

#[test]
fn consecutive_failures_are_read() {
    let mut wire = consecutive(5);
    wire.ejection = Some(outbound::EjectionConfig {
        min_ready_endpoints: 2,
    });
    let expected = FailureAccrual {
        max_consecutive: std::num::NonZeroU32::new(5),
        success_rate: None,
        limits_count: false,
        backoff: Backoff::new(Duration::from_secs(1), Duration::from_secs(60), 0.5).unwrap(),
        respects_retry_after: true,
        min_ready_endpoints: 2,
    };
    assert_eq!(breaker(policy(wire)), Some(expected));
}

#[test]
fn a_success_rate_is_read_in_hundredths_of_a_percent_within_ten_seconds_by_default() {
    let expected = SuccessRate {
        threshold: 9_950,
        window: Duration::from_secs(20),
        min_requests: 30,
    };
    let read = breaker(of(Kind::Unified(unified()))).unwrap();
    assert_eq!(read.success_rate, Some(expected));
    assert_eq!(read.max_consecutive, std::num::NonZeroU32::new(7));
    assert!(read.limits_count);
    let by_default = Unified {
        decay: None,
        ..unified()
    };
    let read = breaker(of(Kind::Unified(by_default))).unwrap();
    let window = read.success_rate.map(|rate| rate.window);
    assert_eq!(window, Some(Duration::from_secs(10)));
}

#[test]
fn a_breaker_that_nothing_trips_is_none() {
    assert_eq!(breaker(policy(consecutive(0))), None);
    let off = Unified {
        success_rate_threshold: 0.0,
        max_consecutive_failures: 0,
        // Not checked: there is no rate.
        decay: secs(0),
        ..unified()
    };
    assert_eq!(breaker(of(Kind::Unified(off))), None);
    assert_eq!(breaker(policy(Wire::default())), None);
}

#[test]
fn impossible_breakers_name_their_field() {
    let of_unified = |change: fn(&mut Unified)| {
        let mut wire = unified();
        change(&mut wire);
        refused(of(Kind::Unified(wire)))
    };
    let of_backoff = |change: fn(&mut ExponentialBackoff)| {
        let mut wire = backoff();
        change(wire.as_mut().unwrap());
        refused(of(Kind::ConsecutiveFailures(ConsecutiveFailures {
            max_failures: 0,
            backoff: wire,
        })))
    };
    for (reason, expected) in [
        (
            of_unified(|u| u.backoff = None),
            "the backoff of failure accrual is missing",
        ),
        (
            of_unified(|u| u.success_rate_threshold = 1.1),
            "the success rate of failure accrual (1.1) is not between 0 and 1",
        ),
        (
            of_unified(|u| u.success_rate_threshold = f64::NAN),
            "the success rate of failure accrual (NaN) is not between 0 and 1",
        ),
        (
            of_unified(|u| u.decay = secs(-1)),
            "the decay of a success rate is no duration",
        ),
        (
            of_unified(|u| u.decay = secs(0)),
            "the decay of a success rate (0ns) is below 10ms",
        ),
        (
            of_unified(|u| u.min_requests = 1_000_001),
            "the minimum of requests for a success rate (1000001) is above 1000000",
        ),
        (
            of_backoff(|b| b.min_backoff = None),
            "a backoff's minimum is missing",
        ),
        (
            of_backoff(|b| b.max_backoff = secs(0)),
            "a backoff is invalid: the minimum (1s) must not exceed the maximum (0ns)",
        ),
        (
            of_backoff(|b| b.jitter_ratio = 101.0),
            "a backoff is invalid: the jitter (101) must be between 0 and 100",
        ),
    ] {
        assert_eq!(reason, expected);
    }
}

#[test]
fn backends_with_other_breakers_are_others() {
    let backend = |accrual| first_backend(&converted(policy(accrual)));
    assert_eq!(backend(consecutive(5)), backend(consecutive(5)));
    assert_ne!(backend(consecutive(5)), backend(consecutive(6)));
    assert_ne!(backend(consecutive(5)), backend(Wire::default()));
}

/// The policy of a backend whose load is `load`, for HTTP/1 and for opaque bytes.
fn with_load(load: backend::balance_p2c::Load) -> (OutboundPolicy, OutboundPolicy) {
    let mut backend = balancer("web:80");
    if let Some(backend::Kind::Balancer(balancer)) = &mut backend.kind {
        balancer.load = Some(load);
    }
    let http = http1(vec![route("route", vec![rule(first(backend.clone()))])]);
    use opaque_route::{Distribution, RouteBackend, Rule, distribution};
    let first = distribution::FirstAvailable {
        backends: vec![RouteBackend {
            backend: Some(backend),
            filters: Vec::new(),
        }],
    };
    let rule = Rule {
        backends: Some(Distribution {
            kind: Some(distribution::Kind::FirstAvailable(first)),
        }),
        filters: Vec::new(),
    };
    let opaque = proxy_protocol::Opaque {
        routes: vec![outbound::OpaqueRoute {
            metadata: wire_meta("tcp"),
            rules: vec![rule],
        }],
    };
    let opaque = OutboundPolicy {
        metadata: wire_meta("parent"),
        protocol: Some(outbound::ProxyProtocol {
            kind: Some(proxy_protocol::Kind::Opaque(opaque)),
        }),
    };
    (http, opaque)
}

fn load(backend: &Backend) -> PeakEwma {
    match &backend.dispatcher {
        Dispatcher::Balance { load, .. } => load.clone(),
        dispatcher => panic!("{dispatcher:?}"),
    }
}

#[test]
fn penalties_have_defaults_and_are_for_requests_only() {
    use backend::balance_p2c::{Load, PenaltyPeakEwma};
    let (http, opaque) = with_load(Load::PenaltyPeakEwma(PenaltyPeakEwma::default()));
    let policy = converted(http);
    let expected = LoadPenalty {
        penalty: Duration::from_secs(5),
        decay: Duration::from_secs(10),
        max_retry_after: Duration::from_secs(300),
    };
    let read = load(&first_backend(&policy));
    assert_eq!(read.penalty.as_deref(), Some(&expected));
    assert_eq!(read.default_rtt, PeakEwma::default().default_rtt);

    let policy = converted(opaque);
    let route = policy.opaque_route().unwrap();
    let backend = route.distribution.backends().next().unwrap();
    assert_eq!(load(backend).penalty, None);

    let (http, _) = with_load(Load::PenaltyPeakEwma(PenaltyPeakEwma {
        penalty_decay: secs(-1),
        ..Default::default()
    }));
    assert_eq!(
        refused(http),
        "the decay of a balancer's penalty is no duration"
    );
}
