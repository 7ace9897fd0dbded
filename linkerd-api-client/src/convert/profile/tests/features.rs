//! Response classes, labels, timeouts and retries of routes.

use super::*;
use linkerd_api_proto::{
    destination::{
        HttpStatusRange, ResponseClass as WireClass, ResponseMatch as WireResponseMatch,
        RetryBudget, response_match,
    },
    prost_types::Duration as WireDuration,
};
use linkerd_profiles::RetryBudgetSettings;
use linkerd_proxy_core::http::{ResponseClass, ResponseClasses, ResponseMatch};
use std::time::Duration;

type WireResponse = response_match::Match;

#[test]
fn response_classes_keep_what_can_be_used() {
    let status = |min, max| WireResponse::Status(HttpStatusRange { min, max });
    let matching = |kind: Option<WireResponse>| WireResponseMatch { r#match: kind };
    let seq = |list: Vec<WireResponse>| response_match::Seq {
        matches: list.into_iter().map(|kind| matching(Some(kind))).collect(),
    };
    let not = |kind| WireResponse::Not(Box::new(matching(Some(kind))));
    let class = |kind: WireResponse| WireClass {
        condition: Some(matching(Some(kind))),
        is_failure: true,
    };
    let wire = Route {
        response_classes: vec![
            class(status(500, 599)),
            class(status(0, 599)),
            class(status(200, 1000)),
            class(status(200, 70_000)),
            class(WireResponse::All(seq(vec![]))),
            class(WireResponse::Any(seq(vec![status(0, 0)]))),
            class(WireResponse::All(seq(vec![
                status(400, 499),
                status(0, 0),
                not(status(404, 404)),
            ]))),
            WireClass {
                condition: None,
                is_failure: true,
            },
            WireClass {
                condition: Some(matching(None)),
                is_failure: true,
            },
            WireClass {
                condition: Some(matching(Some(status(200, 200)))),
                is_failure: false,
            },
        ],
        ..route(path("/"))
    };
    let (routes, ignored) = converted(vec![wire]);
    let class = |condition, is_failure| ResponseClass {
        condition,
        is_failure,
    };
    let client_errors = ResponseMatch::All(vec![
        ResponseMatch::Status(400..=499),
        ResponseMatch::Not(Box::new(ResponseMatch::Status(404..=404))),
    ]);
    assert_eq!(
        routes[0].classes,
        ResponseClasses::new(vec![
            class(ResponseMatch::Status(500..=599), true),
            class(client_errors, true),
            class(ResponseMatch::Status(200..=200), false),
        ])
    );
    let of = |error: &str| format!("a response class of route 0: {error}");
    let within = |error: &str| format!("a response condition of route 0: {error}");
    assert_eq!(
        ignored,
        [
            of("0 is no status code"),
            of("1000 is no status code"),
            of("70000 is no status code"),
            of("a list of conditions is empty"),
            within("0 is no status code"),
            of("a list of conditions is empty"),
            within("0 is no status code"),
            of("a condition is missing"),
            of("a condition is missing"),
        ]
    );
}

#[test]
fn labels_timeouts_and_retries_are_read() {
    let duration = |seconds, nanos| Some(WireDuration { seconds, nanos });
    let budget = RetryBudget {
        retry_ratio: 0.2,
        min_retries_per_second: 10,
        ttl: duration(10, 0),
    };
    let labels = [("route", "books"), ("team", "shop")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()));
    let full = |timeout| Route {
        metrics_labels: labels.clone().into_iter().collect(),
        is_retryable: true,
        timeout,
        ..route(path("/"))
    };
    let profile = |retry_budget| {
        let timeouts = [duration(1, 500), duration(-1, 0), duration(0, 0), None];
        profile_update(
            DestinationProfile {
                routes: timeouts.into_iter().map(full).collect(),
                retry_budget,
                ..DestinationProfile::default()
            },
            80,
        )
    };
    let with_budget = profile(Some(budget));
    let routes = &with_budget.profile.routes;
    assert_eq!(routes[0].labels, labels.clone().into());
    let timeouts = routes.iter().map(|route| route.timeout);
    let only = Some(Duration::new(1, 500));
    assert_eq!(timeouts.collect::<Vec<_>>(), [only, None, None, None]);
    assert!(routes.iter().all(|route| route.is_retryable));
    assert_eq!(
        with_budget.ignored,
        [1, 2].map(|n| format!("the timeout of route {n}: it is not positive"))
    );
    assert_eq!(
        with_budget.profile.retry_budget,
        Some(RetryBudgetSettings {
            ratio: 0.2,
            min_retries_per_second: 10,
            ttl: Duration::from_secs(10),
        })
    );
    for (budget, error) in [
        (None, None),
        (
            Some(RetryBudget {
                retry_ratio: -0.1,
                ..budget
            }),
            Some("the ratio -0.1 is not within 0 and 1000"),
        ),
        (
            Some(RetryBudget {
                retry_ratio: f32::NAN,
                ..budget
            }),
            Some("the ratio NaN is not within 0 and 1000"),
        ),
        (
            Some(RetryBudget {
                retry_ratio: 1000.5,
                ..budget
            }),
            Some("the ratio 1000.5 is not within 0 and 1000"),
        ),
        (
            Some(RetryBudget {
                ttl: None,
                ..budget
            }),
            Some("the time to live is not within 1 s and 60 s"),
        ),
        (
            Some(RetryBudget {
                ttl: duration(0, 999_999_999),
                ..budget
            }),
            Some("the time to live is not within 1 s and 60 s"),
        ),
        (
            Some(RetryBudget {
                ttl: duration(60, 1),
                ..budget
            }),
            Some("the time to live is not within 1 s and 60 s"),
        ),
        (
            Some(RetryBudget {
                min_retries_per_second: 1 << 31,
                ..budget
            }),
            Some("2147483648 retries per second are too many"),
        ),
    ] {
        let ProfileUpdate { profile, ignored } = profile(budget);
        assert_eq!(profile.retry_budget, None);
        assert!(profile.routes.iter().all(|route| !route.is_retryable));
        let named = |part: String| ignored.contains(&part);
        assert!(
            error.is_none_or(|error| named(format!("the retry budget: {error}"))),
            "{ignored:?}"
        );
        assert!(
            named("the retries of route 0: the profile has no valid budget".into()),
            "{ignored:?}"
        );
    }
}
