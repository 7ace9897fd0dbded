use super::duration::duration;
use linkerd_api_proto::outbound::{
    EjectionConfig, ExponentialBackoff, FailureAccrual,
    failure_accrual::{ConsecutiveFailures, Kind, Unified},
};
use std::time::Duration;

/// Builds failure accrual, which ejects endpoints. Ejections last from 1 s to 60 s, without jitter, unless
/// [`Breaker::backoff`] sets other values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Breaker {
    kind: Kind,
    backoff: ExponentialBackoff,
    min_ready_endpoints: u32,
}

impl Breaker {
    /// Ejects an endpoint after this number of failures in a row; 0: never.
    pub fn consecutive(max_failures: u32) -> Self {
        Self::new(Kind::ConsecutiveFailures(ConsecutiveFailures {
            max_failures,
            backoff: None,
        }))
    }

    /// Ejects an endpoint below a success rate, between 0 and 1, of at least `min_requests` within 10 s.
    pub fn success_rate(threshold: f64, min_requests: u32) -> Self {
        Self::new(Kind::Unified(Unified {
            success_rate_threshold: threshold,
            min_requests,
            ..Default::default()
        }))
    }

    fn new(kind: Kind) -> Self {
        Self {
            kind,
            backoff: ExponentialBackoff {
                min_backoff: duration(Duration::from_secs(1)),
                max_backoff: duration(Duration::from_secs(60)),
                jitter_ratio: 0.0,
                respect_retry_after_hint: false,
            },
            min_ready_endpoints: 0,
        }
    }

    /// Ejects an endpoint also after this number of failures in a row.
    #[must_use]
    pub fn or_consecutive(mut self, max_failures: u32) -> Self {
        match &mut self.kind {
            Kind::ConsecutiveFailures(wire) => wire.max_failures = max_failures,
            Kind::Unified(wire) => wire.max_consecutive_failures = max_failures,
        }
        self
    }

    /// Sets the window of the success rate.
    #[must_use]
    pub fn decay(mut self, decay: Duration) -> Self {
        if let Kind::Unified(wire) = &mut self.kind {
            wire.decay = duration(decay);
        }
        self
    }

    /// Sets the first and the longest ejection.
    #[must_use]
    pub fn backoff(mut self, min: Duration, max: Duration) -> Self {
        self.backoff.min_backoff = duration(min);
        self.backoff.max_backoff = duration(max);
        self
    }

    /// Sets the share of an ejection that is added at random.
    #[must_use]
    pub fn jitter(mut self, ratio: f32) -> Self {
        self.backoff.jitter_ratio = ratio;
        self
    }

    /// Lets an endpoint's retry hint set the length of its first ejection.
    #[must_use]
    pub fn respect_retry_after(mut self) -> Self {
        self.backoff.respect_retry_after_hint = true;
        self
    }

    /// Sets the number of endpoints that are never ejected.
    #[must_use]
    pub fn min_ready_endpoints(mut self, endpoints: u32) -> Self {
        self.min_ready_endpoints = endpoints;
        self
    }
}

impl From<Breaker> for FailureAccrual {
    fn from(breaker: Breaker) -> Self {
        let mut kind = breaker.kind;
        match &mut kind {
            Kind::ConsecutiveFailures(wire) => wire.backoff = Some(breaker.backoff),
            Kind::Unified(wire) => wire.backoff = Some(breaker.backoff),
        }
        Self {
            kind: Some(kind),
            ejection: Some(EjectionConfig {
                min_ready_endpoints: breaker.min_ready_endpoints,
            }),
        }
    }
}
