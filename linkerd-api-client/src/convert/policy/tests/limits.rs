//! Timeouts and retries of rules.

use super::*;
use linkerd_api_proto::outbound::{
    ExponentialBackoff,
    grpc_route::{self, retry::Conditions as GrpcConditions},
    http_route::{Retry, retry::Conditions, retry::conditions::StatusRange},
};
use linkerd_profiles::{RetryConditions, RetryPolicy, Timeouts};
use linkerd_proxy_core::Backoff;

fn millis(millis: i32) -> Option<prost_types::Duration> {
    Some(prost_types::Duration {
        seconds: 0,
        nanos: millis * 1_000_000,
    })
}

fn retrying(retry: Retry) -> OutboundPolicy {
    let rule = http_route::Rule {
        retry: Some(retry),
        ..rule(first(balancer("web:80")))
    };
    http1(vec![route("r", vec![rule])])
}

fn statuses(start: u32, end: u32) -> Retry {
    Retry {
        conditions: Some(Conditions {
            status_ranges: vec![StatusRange { start, end }],
        }),
        ..Retry::default()
    }
}

fn backoff(
    min: Option<prost_types::Duration>,
    max: Option<prost_types::Duration>,
    jitter: f32,
) -> Retry {
    Retry {
        backoff: Some(ExponentialBackoff {
            min_backoff: min,
            max_backoff: max,
            jitter_ratio: jitter,
            ..Default::default()
        }),
        ..Retry::default()
    }
}

#[test]
fn a_timeout_of_zero_is_none_and_the_older_field_yields() {
    let timeouts = |timeouts, older| {
        #[allow(deprecated, reason = "older control planes send it")]
        let rule = http_route::Rule {
            timeouts,
            request_timeout: older,
            ..rule(first(balancer("web:80")))
        };
        http1(vec![route("r", vec![rule])])
    };
    let all = |request, response, idle| {
        Some(wire_match::Timeouts {
            request,
            response,
            idle,
        })
    };
    let limits = |request, response, idle| {
        let secs = |limit: Option<u64>| limit.map(Duration::from_secs);
        Timeouts {
            request: secs(request),
            response: secs(response),
            idle: secs(idle),
        }
    };
    for (wire, older, expected) in [
        (None, None, Timeouts::default()),
        (None, secs(9), limits(Some(9), None, None)),
        (
            all(secs(1), secs(2), secs(3)),
            secs(9),
            limits(Some(1), Some(2), Some(3)),
        ),
        (
            all(None, secs(2), None),
            secs(9),
            limits(Some(9), Some(2), None),
        ),
        (all(secs(0), secs(0), secs(0)), None, Timeouts::default()),
    ] {
        let policy = converted(timeouts(wire, older));
        assert_eq!(default_route(&policy).timeouts, expected);
    }
    for (wire, error) in [
        (
            all(secs(-1), None, None),
            "the request timeout is no duration",
        ),
        (
            all(None, secs(-1), None),
            "the response timeout is no duration",
        ),
        (all(None, None, secs(-1)), "the idle timeout is no duration"),
    ] {
        assert_eq!(refused(timeouts(wire, None)), error);
    }
}

#[test]
fn retries_of_http_are_read() {
    let retry = Retry {
        max_retries: 3,
        max_request_bytes: 4096,
        timeout: secs(1),
        ..backoff(millis(10), secs(1), 0.5)
    };
    let retry = Retry {
        conditions: statuses(500, 599).conditions,
        ..retry
    };
    let policy = converted(retrying(retry));
    let expected = RetryPolicy {
        max_retries: 3,
        max_request_bytes: 4096,
        conditions: RetryConditions {
            statuses: vec![500..=599],
            grpc_codes: Vec::new(),
        },
        timeout: Some(Duration::from_secs(1)),
        backoff: Backoff::new(Duration::from_millis(10), Duration::from_secs(1), 0.5).ok(),
    };
    assert!(expected.backoff.is_some());
    assert_eq!(default_route(&policy).retry, Some(expected));
}

#[test]
fn retries_that_make_no_sense_make_the_policy_invalid() {
    let range = |start, end| {
        let error = format!("the statuses to retry, {start} to {end}, are not within 1 to 599");
        (statuses(start, end), error)
    };
    let many = Retry {
        max_retries: 65536,
        ..Retry::default()
    };
    let timeout = Retry {
        timeout: secs(-1),
        ..Retry::default()
    };
    let with = |retry, error: &str| (retry, error.to_owned());
    for (retry, error) in [
        range(0, 500),
        range(500, 600),
        range(502, 501),
        range(500, 65536 + 501),
        with(many, "the number of retries (65536) is above 65535"),
        with(timeout, "the timeout of a retry is no duration"),
        with(
            backoff(None, secs(1), 0.0),
            "a backoff's minimum is missing",
        ),
        with(
            backoff(secs(1), None, 0.0),
            "a backoff's maximum is missing",
        ),
        with(
            backoff(secs(2), secs(1), 0.0),
            "a backoff is invalid: the minimum (2s) must not exceed the maximum (1s)",
        ),
        with(
            backoff(secs(0), secs(0), 0.0),
            "a backoff is invalid: the maximum must be longer than 0",
        ),
        with(
            backoff(secs(1), secs(1), -1.0),
            "a backoff is invalid: the jitter (-1) must be between 0 and 100",
        ),
    ] {
        assert_eq!(refused(retrying(retry)), error);
    }
}

#[test]
fn retries_of_grpc_are_read_by_code() {
    let codes = |conditions| {
        let rule = grpc_route::Rule {
            retry: Some(grpc_route::Retry {
                conditions: Some(conditions),
                ..Default::default()
            }),
            ..grpc::rule(Vec::new(), Vec::new())
        };
        let policy = converted(grpc::policy(vec![rule]));
        let table = policy.http_routes(::http::Version::HTTP_2).unwrap();
        let retry = table.rules()[0].retry.clone().unwrap();
        retry.conditions.grpc_codes
    };
    let none = GrpcConditions::default();
    assert!(codes(none).is_empty());
    for (conditions, code) in [
        (
            GrpcConditions {
                cancelled: true,
                ..none
            },
            1,
        ),
        (
            GrpcConditions {
                deadine_exceeded: true,
                ..none
            },
            4,
        ),
        (
            GrpcConditions {
                resource_exhausted: true,
                ..none
            },
            8,
        ),
        (
            GrpcConditions {
                internal: true,
                ..none
            },
            13,
        ),
        (
            GrpcConditions {
                unavailable: true,
                ..none
            },
            14,
        ),
    ] {
        assert_eq!(codes(conditions), [code]);
    }
}
