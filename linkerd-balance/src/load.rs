//! The load of an endpoint: its latency, times its requests in flight.

use crate::{
    PeakEwma,
    load_settings::{LoadKind, LoadSettings},
    penalty::{OverloadSignal, Penalty},
};
use http::Response;
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
    kind: LoadKind,
    penalty: Option<Box<Penalty>>,
}

/// The measurement of a request in flight. Dropping the handle ends it.
///
/// For HTTP it goes on until the first frame of the response's body, as the incumbent measures it, or until the end of the
/// response if load is the number of requests in flight.
#[derive(Debug)]
pub struct LoadHandle {
    /// `None` when a body continues the measurement.
    load: Option<Rc<Load>>,
    start: Instant,
    end: Outcome,
}

/// The effect of a request's end on its endpoint's estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The latency counts.
    Answered,
    /// The endpoint should get fewer requests.
    Failed,
    /// No effect.
    Unsaid,
}

impl Load {
    pub(crate) fn new(settings: &LoadSettings, weight: u32, now: Instant) -> Self {
        let penalty = settings.penalty.as_ref();
        Self {
            rtt: Cell::new(new_rtt(settings, now)),
            pending: Cell::new(0),
            scale: 1.0 / f64::from(weight.max(1)),
            kind: settings.kind,
            penalty: penalty.map(|penalty| Box::new(Penalty::new(penalty.clone(), now))),
        }
    }

    /// The load by which candidates are compared.
    ///
    /// An endpoint that was not measured yet has no load until its first request. With its guess as the load it would get no
    /// request for seconds, beside others that answer faster than the guess.
    pub(crate) fn value(&self, now: Instant) -> f64 {
        let (rtt, pending) = (self.rtt.get(), self.pending.get());
        if self.kind == LoadKind::LeastPending {
            let penalty = self.penalty(now).unwrap_or_default();
            return (f64::from(pending + 1) + penalty) * self.scale;
        }
        let mut estimate = match rtt.is_guess() && pending == 0 {
            true => 0.0,
            false => rtt.estimate(now),
        };
        if let Some(penalty) = &self.penalty {
            estimate = estimate.max(penalty.estimate(now));
        }
        estimate * f64::from(pending + 1) * self.scale
    }

    /// The estimated latency in seconds.
    pub(crate) fn estimate(&self, now: Instant) -> f64 {
        self.rtt.get().estimate(now)
    }

    /// The present penalty in seconds, if penalties are enabled.
    pub(crate) fn penalty(&self, now: Instant) -> Option<f64> {
        let penalty = self.penalty.as_ref()?;
        Some(penalty.estimate(now))
    }

    pub(crate) fn pending(&self) -> u32 {
        self.pending.get()
    }

    /// The requests in flight for each unit of weight.
    pub(crate) fn pending_by_weight(&self) -> f64 {
        f64::from(self.pending.get()) * self.scale
    }

    /// Starts anew: measurements from before an outage say nothing about the endpoint now.
    pub(crate) fn reset(&self, settings: &LoadSettings, now: Instant) {
        self.rtt.set(new_rtt(settings, now));
        if let Some(penalty) = &self.penalty {
            penalty.reset(now);
        }
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

/// The estimate of an endpoint's latency before its first response.
fn new_rtt(settings: &LoadSettings, now: Instant) -> PeakEwma {
    PeakEwma::new(settings.default_rtt, settings.decay, now)
}

impl LoadHandle {
    /// Continues in the response's body, or ends here with a penalty.
    pub fn answered(self, response: &mut Response<ResponseBody>) {
        match self.penalised(response) {
            true => self.unsaid(),
            false => self.measure_body(response.body_mut()),
        }
    }

    /// Applies the penalty of a response. The latency of a penalised response says nothing about normal ones.
    fn penalised(&self, response: &Response<ResponseBody>) -> bool {
        let penalty = self.load.as_ref().and_then(|load| load.penalty.as_ref());
        let Some(penalty) = penalty else {
            return false;
        };
        let signal = OverloadSignal::of(response);
        if let Some(signal) = signal {
            penalty.add(signal, Instant::now());
        }
        signal.is_some()
    }

    /// Continues until the first frame of a response's body, or until its end.
    fn measure_body(mut self, body: &mut ResponseBody) {
        if let Some(load) = self.load.take() {
            body.observe(load, self.start);
        }
    }

    /// The request failed without a response: a quick failure must not look like a quick endpoint.
    pub fn failed(mut self) {
        self.end = Outcome::Failed;
    }

    /// The endpoint takes no more requests: its absence from the choice is enough.
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
        if !exchange.has_data && self.kind == LoadKind::PeakEwma {
            let elapsed = now.since(exchange.start);
            self.record(elapsed, Outcome::Answered, now.get());
        }
    }

    fn end(&self, exchange: &ObservedResponse<'_>, _: BodyEnd<'_>, now: &Now) {
        match self.kind {
            LoadKind::PeakEwma => self.data(exchange, 0, now),
            LoadKind::LeastPending => {
                self.record(now.since(exchange.start), Outcome::Answered, now.get());
            }
        }
    }
}

/// The least sample of a failed request. Far above the latency of any healthy endpoint, and forgotten after a few decay
/// times, when the endpoint is tried again.
const FAILURE_PENALTY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use linkerd_proxy_core::endpoint::LoadPenalty;

    const SECOND: Duration = Duration::from_secs(1);

    fn load(penalty: Option<u32>) -> Rc<Load> {
        let penalty = penalty.map(|seconds| {
            Rc::new(LoadPenalty {
                penalty: seconds * SECOND,
                decay: SECOND,
                max_retry_after: 60 * SECOND,
            })
        });
        let settings = LoadSettings {
            penalty,
            ..Default::default()
        };
        Rc::new(Load::new(&settings, 1, Instant::now()))
    }

    /// Answers a request after a time.
    async fn answer(load: &Rc<Load>, status: u16, after: Duration) {
        let handle = load.clone().start(Instant::now());
        tokio::time::advance(after).await;
        let response = Response::builder().status(status).body("").unwrap();
        handle.answered(&mut ResponseBody::full(response));
    }

    #[tokio::test(start_paused = true)]
    async fn a_penalty_is_load_without_being_a_latency() {
        let load = load(Some(5));
        assert_eq!(load.value(Instant::now()), 0.0, "it was not asked yet");
        answer(&load, 429, SECOND / 100).await;
        assert_eq!((load.value(Instant::now()), load.pending()), (5.0, 0));
        answer(&load, 200, SECOND / 100).await;
        assert!(
            load.value(Instant::now()) > 4.0,
            "a success does not lift it"
        );
        tokio::time::advance(20 * SECOND).await;
        assert!(load.value(Instant::now()) < 0.01, "time does");
        answer(&load, 500, Duration::ZERO).await;
        load.reset(&LoadSettings::default(), Instant::now());
        assert_eq!(load.value(Instant::now()), 0.0);
    }

    #[tokio::test(start_paused = true)]
    async fn without_penalties_a_quick_failure_is_a_quick_answer() {
        let load = load(None);
        answer(&load, 503, SECOND / 100).await;
        assert!((load.value(Instant::now()) - 0.01).abs() < 1e-9);
        assert_eq!(load.penalty(Instant::now()), None);
    }
}
