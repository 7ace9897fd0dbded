//! Retry budgets of profiles.

use crate::convert::duration::duration;
use linkerd_api_proto::destination::RetryBudget;
use linkerd_profiles::RetryBudgetSettings;
use std::{ops::RangeInclusive, time::Duration};

/// The reason why a budget cannot be used: the profile then has none.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(super) enum InvalidBudget {
    /// The ratio is out of range.
    #[error("the ratio {0} is not within 0 and 1000")]
    Ratio(f32),
    /// The time to live is missing, malformed or out of range.
    #[error("the time to live is not within 1 s and 60 s")]
    Ttl,
    /// There are too many retries per second.
    #[error("{0} retries per second are too many")]
    MinRetries(u32),
}

/// Converts a budget.
pub(super) fn retry_budget(wire: &RetryBudget) -> Result<RetryBudgetSettings, InvalidBudget> {
    let ratio = wire.retry_ratio;
    if !RATIOS.contains(&ratio) {
        return Err(InvalidBudget::Ratio(ratio));
    }
    let ttl = wire.ttl.as_ref().and_then(duration);
    let ttl = ttl.filter(|ttl| TTLS.contains(ttl));
    // The field is signed elsewhere.
    if i32::try_from(wire.min_retries_per_second).is_err() {
        return Err(InvalidBudget::MinRetries(wire.min_retries_per_second));
    }
    Ok(RetryBudgetSettings {
        ratio,
        min_retries_per_second: wire.min_retries_per_second,
        ttl: ttl.ok_or(InvalidBudget::Ttl)?,
    })
}

const RATIOS: RangeInclusive<f32> = 0.0..=1000.0;
const TTLS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(60);
