//! A sampled request, while it is in the proxy.

use super::{
    attempt::AttemptSpan,
    context::TraceContext,
    ids::{SpanId, SpanIds, TraceId},
};
use std::{
    cell::{Cell, RefCell},
    net::SocketAddr,
    rc::Rc,
    time::{Duration, SystemTime},
};
use tokio::time::Instant;

/// The trace of a sampled request in this proxy: its server span and the spans of its attempts, while they last.
#[derive(Debug)]
pub struct RequestTrace {
    /// The context that the request brought.
    pub context: TraceContext,
    /// The id of the server span.
    pub server: SpanId,
    /// The time of the request's arrival.
    pub time: SystemTime,
    /// The same moment, by the clock that measures durations.
    pub start: Instant,
    ids: Rc<SpanIds>,
    attempts: RefCell<Vec<Rc<AttemptSpan>>>,
    unrecorded: Cell<u32>,
}

impl RequestTrace {
    /// A request that arrived at `start`.
    pub fn new(context: TraceContext, ids: &Rc<SpanIds>, time: SystemTime, start: Instant) -> Self {
        Self {
            context,
            server: ids.span(),
            time,
            start,
            ids: ids.clone(),
            attempts: RefCell::default(),
            unrecorded: Cell::default(),
        }
    }

    /// The id of the trace.
    pub fn id(&self) -> TraceId {
        self.context.trace
    }

    /// An attempt that begins now. `None` beyond [`MAX_ATTEMPTS`]: such attempts are only counted.
    pub fn begin_attempt(
        &self,
        waited: Option<Duration>,
        endpoint: Option<SocketAddr>,
        backend: Option<Rc<str>>,
    ) -> Option<Rc<AttemptSpan>> {
        let mut attempts = self.attempts.borrow_mut();
        if attempts.len() >= MAX_ATTEMPTS {
            let unrecorded = self.unrecorded.get().saturating_add(1);
            self.unrecorded.set(unrecorded);
            return None;
        }
        let (id, now) = (self.ids.span(), Instant::now());
        let attempt = Rc::new(AttemptSpan::new(id, now, waited, endpoint, backend));
        attempts.push(attempt.clone());
        Some(attempt)
    }

    /// The end of the last attempt, if it has ended.
    pub fn last_end(&self) -> Option<Instant> {
        let attempts = self.attempts.borrow();
        Some(attempts.last()?.end()?.at)
    }

    /// The attempts that have begun, in their order.
    pub fn attempts(&self) -> Vec<Rc<AttemptSpan>> {
        self.attempts.borrow().clone()
    }

    /// Attempts beyond [`MAX_ATTEMPTS`].
    pub fn unrecorded_attempts(&self) -> u32 {
        self.unrecorded.get()
    }

    /// The calendar time of a moment after the request's arrival.
    pub fn time_of(&self, at: Instant) -> SystemTime {
        self.time + at.saturating_duration_since(self.start)
    }
}

/// The most attempts of a request that have spans: moves to another endpoint within the failfast timeout are unlimited.
pub const MAX_ATTEMPTS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn attempts_are_bounded_and_have_ids_of_their_own() {
        let ids = Rc::new(SpanIds::new(1));
        let context = TraceContext::root(ids.trace());
        let trace = RequestTrace::new(context, &ids, SystemTime::now(), Instant::now());
        for _ in 0..MAX_ATTEMPTS {
            assert!(trace.begin_attempt(None, None, None).is_some());
        }
        assert!(trace.begin_attempt(None, None, None).is_none());
        assert_eq!(trace.unrecorded_attempts(), 1);
        let mut ids: Vec<_> = trace.attempts().iter().map(|it| it.id).collect();
        ids.push(trace.server);
        let distinct: std::collections::HashSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), MAX_ATTEMPTS + 1);
    }
}
