//! Rules of circuit breaking: when failures eject an endpoint, and for how long.

use crate::Backoff;
use std::{num::NonZeroU32, time::Duration};

/// The circuit breaker of a balancer's endpoints. Each endpoint has its own state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FailureAccrual {
    /// Successive failures that eject an endpoint.
    pub max_consecutive: Option<NonZeroU32>,
    /// The success rate below which an endpoint is ejected.
    pub success_rate: Option<SuccessRate>,
    /// Whether 429 and `RESOURCE_EXHAUSTED` lower the success rate and fail a probe. They never count as consecutive failures.
    pub limits_count: bool,
    /// The lengths of successive ejections.
    pub backoff: Backoff,
    /// Whether an endpoint's `retry-after` sets the length of its first ejection, within the backoff's bounds.
    pub respects_retry_after: bool,
    /// The endpoints that must stay available: no endpoint is ejected when fewer would be left. 0: all may be ejected.
    pub min_ready_endpoints: u32,
}

/// A success rate within a sliding window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuccessRate {
    /// The rate in units of 0.01 %, above 0 and at most 10,000.
    pub threshold: u16,
    /// The length of the window.
    pub window: Duration,
    /// The number of responses in the window below which the rate is ignored.
    pub min_requests: u32,
}

impl FailureAccrual {
    /// Whether any outcome can eject an endpoint.
    pub fn can_trip(&self) -> bool {
        self.max_consecutive.is_some() || self.success_rate.is_some()
    }
}
