//! The load of an endpoint: how long it takes, times how many wait for it.

use crate::PeakEwma;
use linkerd_proxy_core::http::{BodyEnd, Now, ObserveResponse, ObservedResponse, ResponseBody};
use std::{cell::Cell, rc::Rc, time::Duration};
use tokio::time::Instant;

/// The load of one endpoint.
#[derive(Debug)]
pub(crate) struct Load {
    rtt: Cell<PeakEwma>,
    pending: Cell<u32>,
    /// 1 / weight, as loads are compared far more often than weights change.
    scale: f64,
}

/// A request that an endpoint is working on. Dropping it ends the measurement.
///
/// For HTTP it goes on until the first frame of the response's body, as that is what the incumbent measures.
#[derive(Debug)]
pub struct LoadHandle {
    /// `None` when a body goes on with the measurement.
    load: Option<Rc<Load>>,
    start: Instant,
    end: Outcome,
}

/// The meaning of a request's end for its endpoint's estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// How long it took.
    Answered,
    /// That it should get less.
    Failed,
    /// Nothing about how long it takes.
    Unsaid,
}

impl Load {
    pub(crate) fn new(rtt: PeakEwma, weight: u32) -> Self {
        Self {
            rtt: Cell::new(rtt),
            pending: Cell::new(0),
            scale: 1.0 / f64::from(weight.max(1)),
        }
    }

    /// The load by which candidates are compared.
    ///
    /// An endpoint that was not measured yet has none until it gets its first request. By its guess it would get nothing for
    /// seconds, beside others that answer faster than the guess.
    pub(crate) fn value(&self, now: Instant) -> f64 {
        let (rtt, pending) = (self.rtt.get(), self.pending.get());
        if rtt.is_guess() && pending == 0 {
            return 0.0;
        }
        rtt.estimate(now) * f64::from(pending + 1) * self.scale
    }

    pub(crate) fn estimate(&self, now: Instant) -> f64 {
        self.rtt.get().estimate(now)
    }

    pub(crate) fn pending(&self) -> u32 {
        self.pending.get()
    }

    /// Starts anew: what the endpoint was before it went away says nothing about what it is now.
    pub(crate) fn reset(&self, rtt: PeakEwma) {
        self.rtt.set(rtt);
    }

    /// Begins to measure a request.
    pub(crate) fn start(self: Rc<Self>, now: Instant) -> LoadHandle {
        self.pending.set(self.pending.get() + 1);
        LoadHandle {
            load: Some(self),
            start: now,
            end: Outcome::Answered,
        }
    }
}

impl LoadHandle {
    /// Goes on until the first frame of a response's body.
    pub fn until_first_frame(mut self, body: &mut ResponseBody) {
        if let Some(load) = self.load.take() {
            body.observe(load, self.start);
        }
    }

    /// The request failed without a response: a quick failure must not look like a quick endpoint.
    pub fn failed(mut self) {
        self.end = Outcome::Failed;
    }

    /// The endpoint does not take requests any more: that it is out of the choice is enough.
    pub fn unsaid(mut self) {
        self.end = Outcome::Unsaid;
    }
}

impl Load {
    fn record(&self, elapsed: Duration, outcome: Outcome, now: Instant) {
        self.pending.set(self.pending.get() - 1);
        let sample = match outcome {
            Outcome::Answered => elapsed,
            Outcome::Failed => elapsed.max(FAILURE_PENALTY),
            Outcome::Unsaid => return,
        };
        let mut rtt = self.rtt.get();
        rtt.observe(sample, now);
        self.rtt.set(rtt);
    }
}

impl Drop for LoadHandle {
    fn drop(&mut self) {
        if let Some(load) = self.load.take() {
            let now = Instant::now();
            let elapsed = now.saturating_duration_since(self.start);
            load.record(elapsed, self.end, now);
        }
    }
}

impl ObserveResponse for Load {
    fn data(&self, exchange: &ObservedResponse<'_>, _: usize, now: &Now) {
        if !exchange.has_data {
            let elapsed = now.since(exchange.start);
            self.record(elapsed, Outcome::Answered, now.get());
        }
    }

    fn end(&self, exchange: &ObservedResponse<'_>, _: BodyEnd<'_>, now: &Now) {
        self.data(exchange, 0, now);
    }
}

/// The least sample of a failed request. It is far above what any healthy endpoint takes, and forgotten after a few
/// decay times, when the endpoint is tried again.
const FAILURE_PENALTY: Duration = Duration::from_secs(1);
