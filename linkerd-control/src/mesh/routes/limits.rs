//! Timeouts and retries of a rule.

use crate::mesh::form::{FieldReader, shown};
use crate::mesh::yaml::Node;
use crate::policy::{Protocol, RouteRetry, RouteTimeouts};
use std::ops::RangeInclusive;
use std::time::Duration;

/// The field `timeouts` of a rule; `0s` means no limit.
pub(super) fn timeouts(r: &mut FieldReader, node: &Node) -> Option<RouteTimeouts> {
    let fields = r.fields(node, &["request", "response", "backendRequest", "idle"])?;
    let mut timeouts = RouteTimeouts::new();
    if let Some(limit) = r.value(&fields, "request", FieldReader::duration) {
        timeouts = timeouts.request(limit);
    }
    if let Some(limit) = r.value(&fields, "response", FieldReader::duration) {
        timeouts = timeouts.response(limit);
    }
    // The Gateway API's limit of one request to a backend.
    if let Some(limit) = r.value(&fields, "backendRequest", FieldReader::duration) {
        if fields.get("response").is_some() {
            let reason = "`backendRequest` and `response` are the same limit; remove one";
            r.report(fields.at, reason);
        }
        timeouts = timeouts.response(limit);
    }
    if let Some(limit) = r.value(&fields, "idle", FieldReader::duration) {
        timeouts = timeouts.idle(limit);
    }
    Some(timeouts)
}

/// The field `retry` of a rule.
pub(super) fn retry(r: &mut FieldReader, node: &Node, protocol: Protocol) -> Option<RouteRetry> {
    let fields = r.fields(
        node,
        &[
            "attempts",
            "codes",
            "timeout",
            "backoff",
            "maxBackoff",
            "maxRequestBytes",
        ],
    )?;
    let attempts = r.value(&fields, "attempts", |r, node| r.within(node, 0..=65_535));
    let mut retry = RouteRetry::new(attempts.unwrap_or(1));
    for node in r.items(&fields, "codes") {
        retry = match protocol {
            Protocol::Grpc => match grpc_code(r, node) {
                Some(code) => retry.code(code),
                None => retry,
            },
            _ => match statuses(r, node) {
                Some(statuses) => retry.status(statuses),
                None => retry,
            },
        };
    }
    if let Some(timeout) = r.value(&fields, "timeout", FieldReader::duration) {
        retry = retry.timeout(timeout);
    }
    if let Some(bytes) = r.value(&fields, "maxRequestBytes", |r, node| {
        r.within(node, 0..=u32::MAX)
    }) {
        retry = retry.max_bytes(bytes);
    }
    let min = r.value(&fields, "backoff", FieldReader::positive_duration);
    let max = r.value(&fields, "maxBackoff", FieldReader::positive_duration);
    match (min, max) {
        (Some(min), max) => {
            let max = max.unwrap_or(min.max(MAX_BACKOFF));
            if min > max {
                let reason = "`backoff` is longer than `maxBackoff`; swap them";
                r.report(fields.at, reason);
            }
            retry = retry.backoff(min, max);
        }
        (None, Some(_)) if fields.get("backoff").is_none() => {
            r.report(fields.at, "`maxBackoff` needs `backoff`, the first pause");
        }
        (None, _) => {}
    }
    Some(retry)
}

/// A status, a range such as `500-599`, or a class such as `5xx`.
fn statuses(r: &mut FieldReader, node: &Node) -> Option<RangeInclusive<u32>> {
    let text = r.text(node)?;
    let status = |text: &str| text.parse().ok().filter(|status| STATUSES.contains(status));
    let range = match (text.strip_suffix("xx"), text.split_once('-')) {
        (Some(class), _) => status(&format!("{class}00")).map(|first| first..=first + 99),
        (None, Some((first, last))) => match (status(first), status(last)) {
            (Some(first), Some(last)) if first <= last => Some(first..=last),
            _ => None,
        },
        (None, None) => status(&text).map(|status| status..=status),
    };
    if range.is_none() {
        let reason = format!(
            "{} is no HTTP status, nor a range of them; write 503, 500-599 or 5xx",
            shown(node)
        );
        r.report(node.at, reason);
    }
    range
}

fn grpc_code(r: &mut FieldReader, node: &Node) -> Option<u32> {
    let code = r.grpc_code(node)?;
    if !RETRIED_CODES.contains(&code) {
        let reason = format!(
            "{} is not retried; use CANCELLED, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, INTERNAL or UNAVAILABLE",
            shown(node)
        );
        r.report(node.at, reason);
        return None;
    }
    Some(code)
}

const STATUSES: RangeInclusive<u32> = 100..=599;

/// The gRPC codes that the proxy's API can name for retries.
const RETRIED_CODES: [u32; 5] = [1, 4, 8, 13, 14];

/// The longest pause between attempts if none is given: a client waits for all pauses.
const MAX_BACKOFF: Duration = Duration::from_secs(1);
