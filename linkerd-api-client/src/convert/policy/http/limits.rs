//! Timeouts and retries of routes.

use super::super::{
    invalid::InvalidPolicy,
    parts::{backoff, duration},
};
use linkerd_api_proto::{
    http_route as wire_match,
    outbound::{grpc_route, http_route},
    prost_types,
};
use linkerd_profiles::{RetryConditions, RetryPolicy, Timeouts};
use std::{ops::RangeInclusive, time::Duration};

/// The timeouts of a rule. `request` is an older field, equal in meaning to the request timeout in `wire`.
pub(super) fn timeouts(
    wire: Option<wire_match::Timeouts>,
    request: Option<prost_types::Duration>,
) -> Result<Timeouts, InvalidPolicy> {
    let wire = wire.unwrap_or_default();
    Ok(Timeouts {
        request: limit(wire.request.or(request), "the request timeout")?,
        response: limit(wire.response, "the response timeout")?,
        idle: limit(wire.idle, "the idle timeout")?,
    })
}

/// An optional limit. 0 means no limit, as in the Gateway API.
fn limit(
    wire: Option<prost_types::Duration>,
    part: &'static str,
) -> Result<Option<Duration>, InvalidPolicy> {
    let limit = wire.map(|wire| duration(Some(wire), part)).transpose()?;
    Ok(limit.filter(|limit| !limit.is_zero()))
}

/// The retries of an HTTP rule.
pub(super) fn http_retry(wire: http_route::Retry) -> Result<RetryPolicy, InvalidPolicy> {
    let conditions = wire.conditions.unwrap_or_default();
    let statuses = conditions.status_ranges.into_iter();
    let statuses = statuses.map(|range| statuses_of(range.start, range.end));
    Ok(RetryPolicy {
        max_retries: max_retries(wire.max_retries)?,
        max_request_bytes: bytes(wire.max_request_bytes),
        conditions: RetryConditions {
            statuses: statuses.collect::<Result<_, _>>()?,
            grpc_codes: Vec::new(),
        },
        timeout: limit(wire.timeout, "the timeout of a retry")?,
        backoff: wire.backoff.map(backoff).transpose()?,
    })
}

/// The retries of a gRPC rule.
pub(super) fn grpc_retry(wire: grpc_route::Retry) -> Result<RetryPolicy, InvalidPolicy> {
    let conditions = wire.conditions.unwrap_or_default();
    let codes = [
        (conditions.cancelled, 1),
        (conditions.deadine_exceeded, 4),
        (conditions.resource_exhausted, 8),
        (conditions.internal, 13),
        (conditions.unavailable, 14),
    ];
    let codes = codes.into_iter().filter(|(is_set, _)| *is_set);
    Ok(RetryPolicy {
        max_retries: max_retries(wire.max_retries)?,
        max_request_bytes: bytes(wire.max_request_bytes),
        conditions: RetryConditions {
            statuses: Vec::new(),
            grpc_codes: codes.map(|(_, code)| code).collect(),
        },
        timeout: limit(wire.timeout, "the timeout of a retry")?,
        backoff: wire.backoff.map(backoff).transpose()?,
    })
}

fn max_retries(number: u32) -> Result<u16, InvalidPolicy> {
    u16::try_from(number).map_err(|_| InvalidPolicy::MaxRetries(number))
}

fn bytes(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn statuses_of(start: u32, end: u32) -> Result<RangeInclusive<u16>, InvalidPolicy> {
    let in_range = |number: u32| u16::try_from(number).ok().filter(|n| (1..=599).contains(n));
    match (in_range(start), in_range(end)) {
        (Some(first), Some(last)) if first <= last => Ok(first..=last),
        _ => Err(InvalidPolicy::StatusRange(start, end)),
    }
}
