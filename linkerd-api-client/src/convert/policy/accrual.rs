//! Failure accrual: the circuit breakers of a protocol's balancers.

use super::{
    invalid::InvalidPolicy,
    parts::{backoff, duration, required},
};
use linkerd_api_proto::outbound::{
    ExponentialBackoff, FailureAccrual as Wire,
    failure_accrual::{Kind, Unified},
};
use linkerd_profiles::{FailureAccrual, SuccessRate};
use std::{num::NonZeroU32, sync::Arc, time::Duration};

/// The breaker of a protocol. `None` if there is none, or if it can never trip.
pub(super) fn breaker(wire: Option<Wire>) -> Result<Option<Arc<FailureAccrual>>, InvalidPolicy> {
    let Some(wire) = wire else {
        return Ok(None);
    };
    let Some(kind) = wire.kind else {
        return Ok(None);
    };
    let (max_consecutive, success_rate, limits_count, backoff) = match kind {
        Kind::ConsecutiveFailures(wire) => (wire.max_failures, None, false, wire.backoff),
        Kind::Unified(wire) => (
            wire.max_consecutive_failures,
            success_rate(&wire)?,
            true,
            wire.backoff,
        ),
    };
    let (backoff, respects_retry_after) = ejections(backoff)?;
    let accrual = FailureAccrual {
        max_consecutive: NonZeroU32::new(max_consecutive),
        success_rate,
        limits_count,
        backoff,
        respects_retry_after,
        min_ready_endpoints: wire.ejection.map_or(0, |wire| wire.min_ready_endpoints),
    };
    Ok(accrual.can_trip().then(|| Arc::new(accrual)))
}

/// The rule of the success rate. `None` if it is turned off.
fn success_rate(wire: &Unified) -> Result<Option<SuccessRate>, InvalidPolicy> {
    let ratio = wire.success_rate_threshold;
    if !(0.0..=1.0).contains(&ratio) {
        return Err(InvalidPolicy::SuccessRate(ratio.to_string()));
    }
    let window = match wire.decay {
        Some(decay) => duration(Some(decay), "the decay of a success rate")?,
        None => WINDOW,
    };
    if wire.min_requests > MAX_MIN_REQUESTS {
        return Err(InvalidPolicy::MinRequests(wire.min_requests));
    }
    // Within 0 and 10,000, as the ratio is within 0 and 1.
    let threshold = (ratio * 10_000.0).round() as u16;
    if threshold == 0 {
        return Ok(None);
    }
    if window < MIN_WINDOW {
        return Err(InvalidPolicy::SuccessRateDecay(window));
    }
    Ok(Some(SuccessRate {
        threshold,
        window,
        min_requests: wire.min_requests,
    }))
}

/// The lengths of ejections, and whether an endpoint's retry hint is respected.
fn ejections(
    wire: Option<ExponentialBackoff>,
) -> Result<(linkerd_proxy_core::Backoff, bool), InvalidPolicy> {
    let wire = required(wire, "the backoff of failure accrual")?;
    let respects_retry_after = wire.respect_retry_after_hint;
    Ok((backoff(wire)?, respects_retry_after))
}

/// The window of a success rate if none is set.
const WINDOW: Duration = Duration::from_secs(10);

/// The shortest window: below it, its ten parts are shorter than a timer's resolution.
const MIN_WINDOW: Duration = Duration::from_millis(10);

/// The incumbent's bound.
const MAX_MIN_REQUESTS: u32 = 1_000_000;
