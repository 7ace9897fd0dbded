//! Penalties of endpoints that answer that they are overloaded or broken.

use crate::PeakEwma;
use http::{HeaderMap, Response, StatusCode, header::CONTENT_TYPE};
use linkerd_proxy_core::{
    endpoint::LoadPenalty,
    http::{grpc_status, is_grpc, retry_after},
};
use std::{cell::Cell, rc::Rc, time::Duration};
use tokio::time::Instant;

/// The penalty of one endpoint: a latency that decays by itself.
#[derive(Debug)]
pub(crate) struct Penalty {
    settings: Rc<LoadPenalty>,
    estimate: Cell<PeakEwma>,
}

/// A response by which an endpoint asks for less load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OverloadSignal {
    /// The endpoint's retry hint (`retry-after`, or the pushback of gRPC).
    retry_after: Option<Duration>,
}

impl Penalty {
    pub(crate) fn new(settings: Rc<LoadPenalty>, now: Instant) -> Self {
        let estimate = PeakEwma::new(Duration::ZERO, settings.decay, now);
        Self {
            settings,
            estimate: Cell::new(estimate),
        }
    }

    /// The penalty in seconds.
    pub(crate) fn estimate(&self, now: Instant) -> f64 {
        self.estimate.get().estimate(now)
    }

    /// Applies a signal: the endpoint's `retry-after` counts if it is longer than the penalty, up to its limit.
    pub(crate) fn add(&self, signal: OverloadSignal, now: Instant) {
        let hint = signal.retry_after.unwrap_or_default();
        let sample = hint
            .min(self.settings.max_retry_after)
            .max(self.settings.penalty);
        let mut estimate = self.estimate.get();
        estimate.observe(sample, now);
        self.estimate.set(estimate);
    }

    /// Starts anew.
    pub(crate) fn reset(&self, now: Instant) {
        let estimate = PeakEwma::new(Duration::ZERO, self.settings.decay, now);
        self.estimate.set(estimate);
    }
}

impl OverloadSignal {
    /// The signal in the head of a response, if there is one: a status, or a gRPC code without a body.
    pub(crate) fn of<B>(response: &Response<B>) -> Option<Self> {
        let (status, headers) = (response.status(), response.headers());
        let has_hint = match code(status, headers) {
            Some(8 | 14) => true,
            Some(2 | 4 | 13 | 15) => false,
            Some(_) => return None,
            None if status == StatusCode::TOO_MANY_REQUESTS => true,
            None if status == StatusCode::SERVICE_UNAVAILABLE => true,
            None if status.is_server_error() => false,
            None => return None,
        };
        let retry_after = has_hint.then(|| retry_after(status, headers)).flatten();
        Some(Self { retry_after })
    }
}

/// The code of a gRPC response that has no body.
fn code(status: StatusCode, headers: &HeaderMap) -> Option<u8> {
    (status == StatusCode::OK && headers.contains_key(CONTENT_TYPE) && is_grpc(headers))
        .then(|| grpc_status(headers))
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn signal(status: u16, headers: &[(&'static str, &'static str)]) -> Option<Option<u64>> {
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        let signal = OverloadSignal::of(&response.body(()).unwrap());
        signal.map(|signal| signal.retry_after.map(|hint| hint.as_secs()))
    }

    #[test]
    fn statuses_and_codes_of_overload_are_signals() {
        let hint = ("retry-after", "7");
        assert_eq!(signal(429, &[hint]), Some(Some(7)));
        assert_eq!(signal(503, &[hint]), Some(Some(7)));
        assert_eq!(signal(503, &[]), Some(None));
        assert_eq!(signal(500, &[hint]), Some(None), "it has no hint");
        assert_eq!(signal(404, &[hint]), None);
        let grpc = ("content-type", "application/grpc+proto");
        let pushback = ("grpc-retry-pushback-ms", "2000");
        assert_eq!(
            signal(200, &[grpc, ("grpc-status", "8"), pushback]),
            Some(Some(2))
        );
        assert_eq!(
            signal(200, &[grpc, ("grpc-status", "13"), pushback]),
            Some(None)
        );
        assert_eq!(signal(200, &[grpc, ("grpc-status", "5")]), None);
        assert_eq!(signal(200, &[grpc]), None);
        assert_eq!(signal(200, &[("grpc-status", "8")]), None, "not gRPC");
    }

    #[test]
    fn a_penalty_wears_off_with_its_own_decay() {
        let start = Instant::now();
        let settings = LoadPenalty {
            penalty: 5 * SECOND,
            decay: 2 * SECOND,
            max_retry_after: 60 * SECOND,
        };
        let penalty = Penalty::new(Rc::new(settings), start);
        assert_eq!(penalty.estimate(start), 0.0);
        penalty.add(OverloadSignal { retry_after: None }, start);
        assert_eq!(penalty.estimate(start), 5.0);
        let after = penalty.estimate(start + 2 * SECOND);
        assert!((after - 5.0 * (-1.0f64).exp()).abs() < 1e-9);
        for (hint, expected) in [(20, 20.0), (600, 60.0)] {
            let retry_after = Some(hint * SECOND);
            penalty.add(OverloadSignal { retry_after }, start + 2 * SECOND);
            assert_eq!(penalty.estimate(start + 2 * SECOND), expected);
        }
        penalty.reset(start);
        assert_eq!(penalty.estimate(start), 0.0);
    }
}
