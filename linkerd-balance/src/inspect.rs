//! What a balancer shows in `/state`.

use crate::{member::Slot, shared::Shared};
use linkerd_proxy_core::{Availability, EndpointState};
use std::{fmt::Display, hash::Hash};
use tokio::time::Instant;

impl<K, S> Shared<K, S>
where
    K: Hash + Eq + Clone + Display + 'static,
    S: Availability + 'static,
{
    /// The balancer's state, for `/state`.
    pub(crate) fn inspect(&self) -> serde_json::Value {
        let now = Instant::now();
        let slots = self.slots.borrow();
        let endpoints = slots.values().flat_map(Slot::members).map(|member| {
            let service = member.service.borrow();
            let state = service.state();
            let error = match &state {
                EndpointState::BackingOff { error, .. } => Some(error.to_string()),
                _ => None,
            };
            serde_json::json!({
                "endpoint": member.key.to_string(),
                "weight": member.weight,
                "state": state.name(),
                "last_error": error,
                "retry_in_ms": state.retry_in(now).map(|wait| wait.as_millis() as u64),
                "estimate_ms": member.load.estimate(now) * 1000.0,
                "in_flight": member.load.pending(),
                "connections": service.inspect(),
            })
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
