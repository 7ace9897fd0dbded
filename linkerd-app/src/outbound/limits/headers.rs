//! Limits that a request asks for: `l5d-timeout`, `l5d-retry-http` and others.

use super::of_route::Limits;
use crate::config::grammar::duration;
use http::{HeaderMap, HeaderName};
use linkerd_profiles::{RetryConditions, RetryPolicy};
use linkerd_proxy_core::Backoff;
use std::{ops::RangeInclusive, rc::Rc, time::Duration};

const TIMEOUT: HeaderName = HeaderName::from_static("l5d-timeout");
const REQUEST_TIMEOUT: HeaderName = HeaderName::from_static("l5d-request-timeout");
const RESPONSE_TIMEOUT: HeaderName = HeaderName::from_static("l5d-response-timeout");
const RETRY_HTTP: HeaderName = HeaderName::from_static("l5d-retry-http");
const RETRY_GRPC: HeaderName = HeaderName::from_static("l5d-retry-grpc");
const RETRY_LIMIT: HeaderName = HeaderName::from_static("l5d-retry-limit");
const RETRY_TIMEOUT: HeaderName = HeaderName::from_static("l5d-retry-timeout");

/// Removes the limits that a request asks for from its headers; limits that it does not name are those of `route`. `None`: it
/// names none. Unreadable values are ignored.
pub(super) fn take(headers: &mut HeaderMap, route: &Limits) -> Option<Limits> {
    if !headers.keys().any(|name| name.as_str().starts_with("l5d-")) {
        return None;
    }
    let mut timeout = |name| take_one(headers, &name, |text| duration(text).ok());
    let request = [timeout(TIMEOUT), timeout(REQUEST_TIMEOUT)];
    let response = timeout(RESPONSE_TIMEOUT);
    let attempt = timeout(RETRY_TIMEOUT);
    let asked = AskedRetry {
        statuses: take_one(headers, &RETRY_HTTP, |text| Some(statuses(text))),
        grpc_codes: take_one(headers, &RETRY_GRPC, |text| Some(grpc_codes(text))),
        max_retries: take_one(headers, &RETRY_LIMIT, |text| text.trim().parse().ok()),
        timeout: attempt,
    };
    let mut limits = route.clone();
    let [older, newer] = request;
    limits.timeouts.request = newer.or(older).or(limits.timeouts.request);
    limits.timeouts.response = response.or(limits.timeouts.response);
    limits.retry = asked.over(limits.retry);
    (limits != *route).then_some(limits)
}

/// Removes a field and reads its first value.
fn take_one<T>(
    headers: &mut HeaderMap,
    name: &HeaderName,
    read: impl FnOnce(&str) -> Option<T>,
) -> Option<T> {
    let value = headers.remove(name)?;
    read(value.to_str().ok()?)
}

/// The parts of a retry policy that a request asks for.
#[derive(Default)]
struct AskedRetry {
    statuses: Option<Vec<RangeInclusive<u16>>>,
    grpc_codes: Option<Vec<u8>>,
    max_retries: Option<u16>,
    timeout: Option<Duration>,
}

impl AskedRetry {
    /// The route's policy with these parts replaced.
    fn over(self, route: Option<Rc<RetryPolicy>>) -> Option<Rc<RetryPolicy>> {
        let is_asked = self.statuses.is_some()
            || self.grpc_codes.is_some()
            || self.max_retries.is_some()
            || self.timeout.is_some();
        if !is_asked {
            return route;
        }
        let route = route.as_deref().cloned().unwrap_or_else(default_retry);
        Some(Rc::new(RetryPolicy {
            max_retries: self.max_retries.unwrap_or(route.max_retries),
            conditions: RetryConditions {
                statuses: self.statuses.unwrap_or(route.conditions.statuses),
                grpc_codes: self.grpc_codes.unwrap_or(route.conditions.grpc_codes),
            },
            timeout: self.timeout.or(route.timeout),
            ..route
        }))
    }
}

/// The policy of a request that asks for retries on a route without them.
fn default_retry() -> RetryPolicy {
    let (min, max) = (Duration::from_millis(25), Duration::from_millis(250));
    RetryPolicy {
        max_retries: 1,
        max_request_bytes: 64 * 1024,
        conditions: RetryConditions::default(),
        timeout: None,
        backoff: Backoff::new(min, max, 1.0).ok(),
    }
}

fn statuses(text: &str) -> Vec<RangeInclusive<u16>> {
    let item = |item: &str| match item {
        "5xx" => Some(500..=599),
        "gateway-error" => Some(502..=504),
        _ => {
            let (first, last) = item.split_once('-').unwrap_or((item, item));
            let (first, last) = (first.parse().ok()?, last.parse().ok()?);
            (100..=last).contains(&first).then_some(first..=last)
        }
    };
    text.split(',').filter_map(item).collect()
}

fn grpc_codes(text: &str) -> Vec<u8> {
    let item = |item: &str| match item {
        "cancelled" => Some(1),
        "deadline-exceeded" => Some(4),
        "resource-exhausted" => Some(8),
        "internal" => Some(13),
        "unavailable" => Some(14),
        _ => None,
    };
    text.split(',').filter_map(item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use linkerd_profiles::Timeouts;

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        let fields = fields.iter().map(|(name, value)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_str(value).unwrap())
        });
        fields.collect()
    }

    fn ms(millis: u64) -> Option<Duration> {
        Some(Duration::from_millis(millis))
    }

    #[test]
    fn timeouts_are_taken_and_the_clearer_name_wins() {
        let route = Limits {
            timeouts: Timeouts {
                request: ms(1),
                response: ms(2),
                idle: ms(3),
            },
            retry: None,
        };
        for (fields, request, response) in [
            (&[("l5d-timeout", "5s")][..], 5000, 2),
            (
                &[("l5d-timeout", "5s"), ("l5d-request-timeout", "7ms")],
                7,
                2,
            ),
            (
                &[("l5d-response-timeout", "1m"), ("host", "web")],
                1,
                60_000,
            ),
        ] {
            let mut headers = headers(fields);
            let taken = take(&mut headers, &route).unwrap();
            assert_eq!(taken.timeouts.request, ms(request), "{fields:?}");
            assert_eq!(taken.timeouts.response, ms(response), "{fields:?}");
            assert_eq!(taken.timeouts.idle, ms(3));
            assert!(headers.keys().all(|name| name == "host"));
        }
    }

    #[test]
    fn what_cannot_be_read_is_removed_and_asks_for_nothing() {
        let mut fields = headers(&[
            ("l5d-timeout", "soon"),
            ("l5d-retry-limit", "-1"),
            ("l5d-client-id", "stays"),
        ]);
        assert_eq!(take(&mut fields, &Limits::default()), None);
        assert_eq!(fields.len(), 1);
        assert_eq!(
            take(&mut headers(&[("host", "web")]), &Limits::default()),
            None
        );
    }

    #[test]
    fn a_request_may_ask_for_retries_on_a_route_without_them() {
        let mut fields = headers(&[("l5d-retry-http", "5xx,429,a,600-500,400-404,gateway-error")]);
        let retry = take(&mut fields, &Limits::default())
            .unwrap()
            .retry
            .unwrap();
        assert_eq!(
            retry.conditions.statuses,
            [500..=599, 429..=429, 400..=404, 502..=504]
        );
        assert_eq!((retry.max_retries, retry.max_request_bytes), (1, 65_536));
        assert!(retry.backoff.is_some() && retry.timeout.is_none());
    }

    #[test]
    fn a_request_changes_the_parts_of_a_policy_that_it_names() {
        let route = RetryPolicy {
            max_retries: 2,
            max_request_bytes: 10,
            conditions: RetryConditions {
                statuses: vec![500..=500],
                grpc_codes: vec![14],
            },
            timeout: None,
            backoff: None,
        };
        let limits = Limits {
            retry: Some(Rc::new(route.clone())),
            ..Limits::default()
        };
        let mut fields = headers(&[
            ("l5d-retry-limit", "5"),
            (
                "l5d-retry-grpc",
                "cancelled,unavailable,unknown,internal,resource-exhausted,deadline-exceeded",
            ),
            ("l5d-retry-timeout", "20ms"),
        ]);
        let taken = take(&mut fields, &limits).unwrap().retry.unwrap();
        let expected = RetryPolicy {
            max_retries: 5,
            conditions: RetryConditions {
                grpc_codes: vec![1, 14, 13, 8, 4],
                ..route.conditions.clone()
            },
            timeout: ms(20),
            ..route
        };
        assert_eq!(*taken, expected);
    }
}
