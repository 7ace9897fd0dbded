//! A balancer in `/state`.

use crate::{member::Slot, state::BalanceState};
use linkerd_proxy_core::EndpointState;
use std::{fmt::Display, hash::Hash};
use tokio::time::Instant;

impl<K, S> BalanceState<K, S>
where
    K: Hash + Eq + Clone + Display + 'static,
    S: 'static,
{
    /// The balancer's state, for `/state`.
    pub(crate) fn inspect(&self) -> serde_json::Value {
        let now = Instant::now();
        let slots = self.slots.borrow();
        let endpoints = slots.values().flat_map(Slot::candidates).map(|candidate| {
            let state = candidate.status.state();
            let error = match &state {
                EndpointState::BackingOff(outage) => Some(outage.error.to_string()),
                _ => None,
            };
            let mut shown = serde_json::json!({
                "endpoint": candidate.key.to_string(),
                "weight": candidate.weight,
                "state": state.name(),
                "last_error": error,
                "retry_in_ms": state.retry_in(now).map(|wait| wait.as_millis() as u64),
                "estimate_ms": candidate.load.estimate(now) * 1000.0,
                "in_flight": candidate.load.pending(),
                "connections": candidate.status.inspect(),
            });
            if let Some(penalty) = candidate.load.penalty(now) {
                shown["penalty_ms"] = (penalty * 1000.0).into();
            }
            if let Some(breaker) = &candidate.breaker {
                shown["breaker"] = breaker.inspect(now);
            }
            shown
        });
        serde_json::json!({
            "resolved": self.resolved.get(),
            "failing_fast": self.failfast.get().is_shut(),
            "queue": { "length": self.queue.len(), "limit": self.params.queue.capacity,
                       "failfast_ms": self.params.queue.failfast.as_millis() as u64 },
            "ready": self.ready.len(),
            "endpoints": endpoints.collect::<Vec<_>>(),
        })
    }
}
