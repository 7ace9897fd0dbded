//! Timeouts and retries of a route.

use linkerd_proxy_core::Backoff;
use std::{ops::RangeInclusive, time::Duration};

/// The limits of a route's requests. `None` means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// From the request's arrival at the route to the end of its response, retries included.
    pub request: Option<Duration>,
    /// From the end of the request's body to the end of the response.
    pub response: Option<Duration>,
    /// Between two frames of the request or of the response.
    pub idle: Option<Duration>,
}

/// The retries of a route's requests.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicy {
    /// The retries after the first attempt.
    pub max_retries: u16,
    /// The most bytes of a request's body that are kept for a retry.
    pub max_request_bytes: usize,
    /// The responses that are retried.
    pub conditions: RetryConditions,
    /// The limit for an attempt's response headers, from the end of the request.
    pub timeout: Option<Duration>,
    /// The pause before a retry.
    pub backoff: Option<Backoff>,
}

/// The responses that are retried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetryConditions {
    /// By status.
    pub statuses: Vec<RangeInclusive<u16>>,
    /// By gRPC code.
    pub grpc_codes: Vec<u8>,
}

impl Timeouts {
    /// Whether there is no limit at all.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}
