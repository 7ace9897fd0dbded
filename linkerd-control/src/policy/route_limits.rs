//! Timeouts and retries of a route's rule.

use super::duration::duration;
use linkerd_api_proto::http_route::Timeouts;
use linkerd_api_proto::outbound::{
    ExponentialBackoff, grpc_route,
    http_route::{self, retry::conditions::StatusRange},
};
use std::ops::RangeInclusive;
use std::time::Duration;

/// The timeouts of a rule. A timeout that is not set means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteTimeouts {
    request: Option<Duration>,
    response: Option<Duration>,
    idle: Option<Duration>,
}

/// The retries of a rule. By default bodies of up to 64 KiB are kept, and there is no pause between attempts.
///
/// ```
/// use linkerd_control::RouteRetry;
/// use std::time::Duration;
///
/// let retry = RouteRetry::new(2).status(500..=599).backoff(Duration::from_millis(10), Duration::from_secs(1));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RouteRetry {
    limit: u32,
    max_bytes: u32,
    statuses: Vec<RangeInclusive<u32>>,
    codes: Vec<u32>,
    timeout: Option<Duration>,
    backoff: Option<(Duration, Duration)>,
}

impl RouteTimeouts {
    /// No timeouts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Limits the time from a request to the end of its response, retries included.
    #[must_use]
    pub fn request(mut self, limit: Duration) -> Self {
        self.request = Some(limit);
        self
    }

    /// Limits the time from the end of a request to the end of its response.
    #[must_use]
    pub fn response(mut self, limit: Duration) -> Self {
        self.response = Some(limit);
        self
    }

    /// Limits the time between two frames.
    #[must_use]
    pub fn idle(mut self, limit: Duration) -> Self {
        self.idle = Some(limit);
        self
    }

    pub(super) fn message(&self) -> Timeouts {
        Timeouts {
            request: self.request.and_then(duration),
            response: self.response.and_then(duration),
            idle: self.idle.and_then(duration),
        }
    }
}

impl RouteRetry {
    /// At most `limit` retries after the first attempt.
    pub fn new(limit: u32) -> Self {
        Self {
            limit,
            max_bytes: 64 * 1024,
            statuses: Vec::new(),
            codes: Vec::new(),
            timeout: None,
            backoff: None,
        }
    }

    /// Retries responses with these statuses (HTTP routes).
    #[must_use]
    pub fn status(mut self, statuses: RangeInclusive<u32>) -> Self {
        self.statuses.push(statuses);
        self
    }

    /// Retries responses with this gRPC code (gRPC routes): 1, 4, 8, 13 or 14.
    #[must_use]
    pub fn code(mut self, code: u32) -> Self {
        self.codes.push(code);
        self
    }

    /// Keeps bodies of up to this size.
    #[must_use]
    pub fn max_bytes(mut self, max_bytes: u32) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    /// Limits the wait for the headers of each attempt's response.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Sets the shortest and the longest pause between attempts.
    #[must_use]
    pub fn backoff(mut self, min: Duration, max: Duration) -> Self {
        self.backoff = Some((min, max));
        self
    }

    pub(super) fn http(&self) -> http_route::Retry {
        let range = |range: &RangeInclusive<u32>| StatusRange {
            start: *range.start(),
            end: *range.end(),
        };
        http_route::Retry {
            max_retries: self.limit,
            max_request_bytes: self.max_bytes,
            conditions: Some(http_route::retry::Conditions {
                status_ranges: self.statuses.iter().map(range).collect(),
            }),
            timeout: self.timeout.and_then(duration),
            backoff: self.wire_backoff(),
        }
    }

    pub(super) fn grpc(&self) -> grpc_route::Retry {
        let has = |code| self.codes.contains(&code);
        grpc_route::Retry {
            max_retries: self.limit,
            max_request_bytes: self.max_bytes,
            conditions: Some(grpc_route::retry::Conditions {
                cancelled: has(1),
                deadine_exceeded: has(4),
                resource_exhausted: has(8),
                internal: has(13),
                unavailable: has(14),
            }),
            timeout: self.timeout.and_then(duration),
            backoff: self.wire_backoff(),
        }
    }

    fn wire_backoff(&self) -> Option<ExponentialBackoff> {
        let (min, max) = self.backoff?;
        Some(ExponentialBackoff {
            min_backoff: duration(min),
            max_backoff: duration(max),
            ..ExponentialBackoff::default()
        })
    }
}
