//! Passes: the admission of a request by its endpoint's breaker, until the outcome.

use super::{
    classify,
    endpoint::EndpointBreaker,
    machine::{Outcome, OutcomeKind},
};
use http::{HeaderMap, StatusCode};
use linkerd_proxy_core::{
    Error,
    http::{BodyEnd, Now, ObserveResponse, ObservedResponse, retry_after, retry_pushback},
};
use std::{rc::Rc, time::Duration};
use tokio::time::Instant;

/// The gate of an endpoint, at which its requests pass the breaker. Dropping the gate removes the endpoint from its group.
#[derive(Debug)]
pub struct BreakerGate {
    /// The pass of the present epoch: shared by requests, so that nothing is allocated for them.
    pass: Rc<BreakerPass>,
}

/// The permission of a request to pass. All requests between two ejections share one.
#[derive(Debug)]
pub struct BreakerPass {
    breaker: Rc<EndpointBreaker>,
    epoch: u32,
}

/// The pass of a response with a hint.
struct HintedPass {
    pass: Rc<BreakerPass>,
    retry_after: Duration,
}

impl BreakerGate {
    /// The gate of an endpoint.
    pub fn new(breaker: Rc<EndpointBreaker>) -> Self {
        let pass = Rc::new(BreakerPass { breaker, epoch: 0 });
        Self { pass }
    }

    /// Admits a request. Its pass must be used once, for its outcome or to be [abandoned](BreakerPass::abandon).
    pub fn admit(&mut self) -> Rc<BreakerPass> {
        let epoch = self.pass.breaker.admit();
        if self.pass.epoch != epoch {
            let breaker = self.pass.breaker.clone();
            self.pass = Rc::new(BreakerPass { breaker, epoch });
        }
        self.pass.clone()
    }
}

impl Drop for BreakerGate {
    fn drop(&mut self) {
        self.pass.breaker.leave();
    }
}

impl BreakerPass {
    /// Records the outcome of a request.
    pub fn record(&self, kind: OutcomeKind, retry_after: Option<Duration>, now: Instant) {
        let outcome = Outcome {
            epoch: self.epoch,
            kind,
            retry_after,
        };
        self.breaker.record(outcome, now);
    }

    /// Records the failure of a request without a response.
    pub fn failed(&self, error: &Error) {
        match classify::failed(error) {
            Some(kind) => self.record(kind, None, Instant::now()),
            None => self.abandon(),
        }
    }

    /// Notes that the request ended without an outcome.
    pub fn abandon(&self) {
        self.breaker.abandon(self.epoch);
    }

    /// The observer of the response with this head.
    pub fn observer(
        self: Rc<Self>,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Rc<dyn ObserveResponse> {
        let hint = match self.breaker.respects_retry_after() {
            true => retry_after(status, headers),
            false => None,
        };
        match hint {
            None => self,
            Some(retry_after) => Rc::new(HintedPass {
                pass: self,
                retry_after,
            }),
        }
    }

    fn ended(
        &self,
        response: &ObservedResponse<'_>,
        end: BodyEnd<'_>,
        hint: Option<Duration>,
        now: &Now,
    ) {
        let Some(kind) = classify::ended(response, end) else {
            return self.cut_short(now);
        };
        let hint = hint.or_else(|| match end {
            BodyEnd::Complete(Some(trailers)) => retry_pushback(trailers),
            _ => None,
        });
        self.record(kind, hint, now.get());
    }

    /// The client dropped the response before the endpoint had reported success or failure: a success, but no proof of recovery.
    fn cut_short(&self, now: &Now) {
        self.abandon();
        self.record(OutcomeKind::Success, None, now.get());
    }
}

impl ObserveResponse for BreakerPass {
    fn end(&self, response: &ObservedResponse<'_>, end: BodyEnd<'_>, now: &Now) {
        self.ended(response, end, None, now);
    }
}

impl ObserveResponse for HintedPass {
    fn end(&self, response: &ObservedResponse<'_>, end: BodyEnd<'_>, now: &Now) {
        self.pass.ended(response, end, Some(self.retry_after), now);
    }
}
