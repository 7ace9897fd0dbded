//! The breaker of a service's endpoints.

use super::form::FieldReader;
use super::yaml::Node;
use crate::policy::Breaker;
use std::time::Duration;

/// The field `breaker` of a service.
pub(super) fn breaker(r: &mut FieldReader, node: &Node) -> Option<Breaker> {
    let fields = r.fields(
        node,
        &[
            "consecutiveFailures",
            "successRate",
            "minRequests",
            "window",
            "backoff",
            "respectRetryAfter",
            "minReadyEndpoints",
        ],
    )?;
    let failures = r.value(&fields, "consecutiveFailures", |r, node| {
        r.within(node, 1..=u32::MAX)
    });
    let rate = r.value(&fields, "successRate", |r, node| {
        // The proxy rounds a value below a hundredth of a percent to 0.
        r.decimal_within(node, 0.0001..=1.0)
    });
    let requests = r.value(&fields, "minRequests", |r, node| {
        r.within(node, 0..=1_000_000)
    });
    let window = r.value(&fields, "window", |r, node| {
        let window = r.duration(node)?;
        if window < MIN_WINDOW {
            r.report(node.at, "a window is at least 10ms");
        }
        Some(window)
    });
    let has = |name| fields.get(name).is_some();
    if !has("consecutiveFailures") && !has("successRate") {
        let reason = "the breaker has no limit; add `consecutiveFailures` or `successRate`";
        r.report(fields.at, reason);
    }
    for name in ["minRequests", "window"] {
        if has(name) && !has("successRate") {
            let reason = format!("`{name}` is for `successRate`; add it");
            r.report(fields.at, reason);
        }
    }
    let mut breaker = match (rate, failures) {
        (None, failures) => Breaker::consecutive(failures.unwrap_or_default()),
        (Some(rate), failures) => Breaker::success_rate(rate, requests.unwrap_or(MIN_REQUESTS))
            .or_consecutive(failures.unwrap_or_default()),
    };
    if let Some(window) = window {
        breaker = breaker.decay(window);
    }
    let backed_off = r.value(&fields, "backoff", |r, node| backoff(r, node, breaker));
    breaker = backed_off.unwrap_or(breaker);
    if r.flag(&fields, "respectRetryAfter") {
        breaker = breaker.respect_retry_after();
    }
    let ready = r.value(&fields, "minReadyEndpoints", |r, node| {
        r.within(node, 0..=u32::MAX)
    });
    Some(breaker.min_ready_endpoints(ready.unwrap_or_default()))
}

/// The lengths of ejections.
fn backoff(r: &mut FieldReader, node: &Node, breaker: Breaker) -> Option<Breaker> {
    let fields = r.fields(node, &["min", "max", "jitter"])?;
    let min = r.value(&fields, "min", FieldReader::positive_duration);
    let max = r.value(&fields, "max", FieldReader::positive_duration);
    let jitter = r.value(&fields, "jitter", |r, node| {
        r.decimal_within(node, 0.0..=1.0)
    });
    let first = min.unwrap_or(MIN_EJECTION);
    let longest = max.unwrap_or(first.max(MAX_EJECTION));
    if first > longest {
        r.report(fields.at, "`min` is longer than `max`; swap them");
    }
    let breaker = breaker.backoff(first, longest);
    Some(match jitter {
        Some(jitter) => breaker.jitter(jitter as f32),
        None => breaker,
    })
}

/// The default minimum: with fewer requests a rate says little.
const MIN_REQUESTS: u32 = 20;

/// The proxy's bound, below which parts of a window are shorter than a timer's resolution.
const MIN_WINDOW: Duration = Duration::from_millis(10);

// The values of a cluster's control plane.
const MIN_EJECTION: Duration = Duration::from_secs(1);
const MAX_EJECTION: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use crate::mesh::testing::{mesh, refused_at_mark, web_with};
    use crate::policy::{Breaker, Policy};
    use std::time::Duration;

    #[test]
    fn breakers_of_services() {
        let seconds = Duration::from_secs;
        for (fields, breaker) in [
            ("{consecutiveFailures: 7}", Breaker::consecutive(7)),
            ("{successRate: 0.9}", Breaker::success_rate(0.9, 20)),
            (
                "{successRate: 0.9, minRequests: 5, window: 30s, consecutiveFailures: 3, minReadyEndpoints: 2,
                  respectRetryAfter: true, backoff: {min: 2s, max: 90s, jitter: 0.5}}",
                Breaker::success_rate(0.9, 5)
                    .or_consecutive(3)
                    .decay(seconds(30))
                    .backoff(seconds(2), seconds(90))
                    .jitter(0.5)
                    .respect_retry_after()
                    .min_ready_endpoints(2),
            ),
            (
                "{consecutiveFailures: 7, backoff: {min: 2m}}",
                Breaker::consecutive(7).backoff(seconds(120), seconds(120)),
            ),
        ] {
            let mesh = mesh(&web_with(&format!("breaker: {fields}")));
            let expected = Policy::balance("web", 80).failure_accrual(breaker).build();
            let (policy, _) = mesh.messages().next().expect("a service");
            assert_eq!(policy, expected, "{fields}");
        }
    }

    #[test]
    fn wrong_breakers_are_refused() {
        for (breaker, reason) in [
            (
                "^{minReadyEndpoints: 1}",
                "the breaker has no limit; add `consecutiveFailures` or `successRate`",
            ),
            (
                "{^consecutiveFailure: 1}",
                "unknown field `consecutiveFailure`; did you mean `consecutiveFailures`?",
            ),
            (
                "{consecutiveFailures: ^0}",
                "0 is not between 1 and 4294967295",
            ),
            ("{successRate: ^90}", "90 is not between 0.0001 and 1"),
            (
                "^{consecutiveFailures: 1, window: 1s}",
                "`window` is for `successRate`; add it",
            ),
            (
                "{successRate: 1, window: ^1ms}",
                "a window is at least 10ms",
            ),
            (
                "{successRate: 1, backoff: ^{min: 2s, max: 1s}}",
                "`min` is longer than `max`; swap them",
            ),
            (
                "{successRate: 1, backoff: {jitter: ^2}}",
                "2 is not between 0 and 1",
            ),
        ] {
            refused_at_mark(&format!("breaker: {breaker}"), reason);
        }
    }
}
