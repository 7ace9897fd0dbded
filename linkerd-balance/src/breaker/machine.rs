//! The circuit breaker of one endpoint, as a pure state machine.

use super::window::{Counts, SuccessWindow};
use linkerd_proxy_core::endpoint::FailureAccrual;
use rand::Rng;
use std::{fmt, rc::Rc, time::Duration};
use tokio::time::Instant;

/// Decides from the outcomes of requests whether an endpoint is ejected.
#[derive(Debug)]
pub struct Breaker {
    rules: Rc<FailureAccrual>,
    state: BreakerState,
    /// Changes with each ejection: outcomes of requests admitted before are ignored.
    epoch: u32,
    /// Failures in a row.
    failures: u32,
    /// Allocated with the first outcome: many endpoints get no request.
    window: Option<Box<SuccessWindow>>,
}

/// The state of a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// Requests pass.
    Closed,
    /// No request passes until the ejection is over; then the first one is a probe.
    Open(EjectedFor),
    /// One request passes, and decides.
    Probing(EjectedFor),
}

/// An ejection, and the cause of the first ejection in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EjectedFor {
    /// The end of the ejection.
    pub until: Instant,
    /// The probes that have failed since the breaker tripped.
    pub failed_probes: u32,
    /// The cause of the trip.
    pub cause: TripCause,
}

/// The rule that tripped a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TripCause {
    /// This many failures in a row.
    ConsecutiveFailures(u32),
    /// Too few successes.
    SuccessRate {
        /// Successes in the window.
        successes: u32,
        /// Responses in the window.
        total: u32,
    },
}

/// The meaning of a response for its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutcomeKind {
    /// A success.
    Success,
    /// A failure of the endpoint.
    Failure,
    /// The endpoint limits its clients: does not count as a failure in a row, but lowers the success rate.
    Limited,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The epoch in which the request was [admitted](Admission).
    pub epoch: u32,
    /// The kind of outcome.
    pub kind: OutcomeKind,
    /// The endpoint's retry hint (`retry-after`, or the pushback of gRPC).
    pub retry_after: Option<Duration>,
}

/// The admission of a request to its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The epoch, which the request's [`Outcome`] has to name.
    pub epoch: u32,
    /// Whether the request is the probe of an ejected endpoint.
    pub is_probe: bool,
}

/// A change of a breaker's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerChange {
    /// The breaker tripped: the endpoint is ejected.
    Opened(EjectedFor),
    /// The probe failed: the endpoint stays ejected.
    Reopened(EjectedFor),
    /// The endpoint takes requests again.
    Closed,
    /// The breaker would have tripped, but too few other endpoints are left.
    Withheld(TripCause),
}

impl Breaker {
    /// A closed breaker.
    pub fn new(rules: Rc<FailureAccrual>) -> Self {
        Self {
            rules,
            state: BreakerState::Closed,
            epoch: 0,
            failures: 0,
            window: None,
        }
    }

    /// The present state.
    pub fn state(&self) -> BreakerState {
        self.state
    }

    /// Failures in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Admits a request. The balancer sends no request while the endpoint is ejected, so a request to an open breaker is the probe.
    pub fn admit(&mut self) -> Admission {
        let epoch = self.epoch;
        match self.state {
            BreakerState::Closed => Admission {
                epoch,
                is_probe: false,
            },
            BreakerState::Open(ejected) => {
                self.state = BreakerState::Probing(ejected);
                Admission {
                    epoch,
                    is_probe: true,
                }
            }
            // Not the probe, so its outcome is ignored.
            BreakerState::Probing(_) => Admission {
                epoch: epoch.wrapping_sub(1),
                is_probe: false,
            },
        }
    }

    /// Records the outcome of a request. `may_eject`: whether the floor allows an ejection.
    pub fn record(
        &mut self,
        outcome: Outcome,
        now: Instant,
        may_eject: bool,
        rng: &mut impl Rng,
    ) -> Option<BreakerChange> {
        if outcome.epoch != self.epoch {
            return None;
        }
        match self.state {
            BreakerState::Open(_) => None,
            BreakerState::Closed => {
                let cause = self.count(outcome.kind, now)?;
                if !may_eject {
                    return Some(BreakerChange::Withheld(cause));
                }
                let ejected = self.eject(cause, 0, outcome.retry_after, now, rng);
                Some(BreakerChange::Opened(ejected))
            }
            BreakerState::Probing(ejected) => {
                let fails = match outcome.kind {
                    OutcomeKind::Success => false,
                    OutcomeKind::Failure => true,
                    OutcomeKind::Limited => self.rules.limits_count,
                };
                if !fails || !may_eject {
                    self.close();
                    return Some(BreakerChange::Closed);
                }
                let failed_probes = ejected.failed_probes.saturating_add(1);
                let hint = outcome.retry_after;
                let ejected = self.eject(ejected.cause, failed_probes, hint, now, rng);
                Some(BreakerChange::Reopened(ejected))
            }
        }
    }

    /// Ends the probe without an outcome. `true` if the request was the probe.
    pub fn abandon(&mut self, epoch: u32) -> bool {
        match self.state {
            BreakerState::Probing(ejected) if epoch == self.epoch => {
                self.state = BreakerState::Open(ejected);
                true
            }
            _ => false,
        }
    }

    /// Closes the breaker, and clears its counts.
    pub fn close(&mut self) {
        self.state = BreakerState::Closed;
        self.failures = 0;
        self.window = None;
    }

    /// Counts an outcome. Returns the rule that trips, if any.
    fn count(&mut self, kind: OutcomeKind, now: Instant) -> Option<TripCause> {
        self.failures = match kind {
            OutcomeKind::Failure => self.failures.saturating_add(1),
            OutcomeKind::Success | OutcomeKind::Limited => 0,
        };
        let counts = self.rules.success_rate.map(|rule| {
            let new = || Box::new(SuccessWindow::new(rule.window, now));
            let window = self.window.get_or_insert_with(new);
            (rule, window.add(kind == OutcomeKind::Success, now))
        });
        if let Some(max) = self.rules.max_consecutive
            && self.failures >= max.get()
        {
            return Some(TripCause::ConsecutiveFailures(self.failures));
        }
        let (rule, Counts { successes, total }) = counts?;
        let is_low = Counts { successes, total }.is_below(rule.threshold);
        (is_low && total >= rule.min_requests)
            .then_some(TripCause::SuccessRate { successes, total })
    }

    fn eject(
        &mut self,
        cause: TripCause,
        failed_probes: u32,
        retry_after: Option<Duration>,
        now: Instant,
        rng: &mut impl Rng,
    ) -> EjectedFor {
        let backoff = &self.rules.backoff;
        let step = backoff.delay(failed_probes, rng);
        let hint = retry_after.filter(|_| self.rules.respects_retry_after);
        let length = match hint.map(|hint| backoff.clamp(hint)) {
            None => step,
            Some(hint) if failed_probes == 0 => hint,
            Some(hint) => hint.max(step),
        };
        let ejected = EjectedFor {
            until: now + length,
            failed_probes,
            cause,
        };
        self.state = BreakerState::Open(ejected);
        self.epoch = self.epoch.wrapping_add(1);
        ejected
    }
}

impl fmt::Display for TripCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ConsecutiveFailures(failures) => write!(f, "{failures} failures in a row"),
            Self::SuccessRate { successes, total } => {
                write!(f, "{successes} successes of {total}")
            }
        }
    }
}

#[cfg(test)]
mod tests;
