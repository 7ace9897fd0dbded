//! The states of a target's backends, for `/explain`.

use super::{
    HttpRoutes,
    backends::{BackendKey, BackendStatus},
    target::Targets,
};
use crate::explain::BackendsQuery;
use linkerd_profiles::Backend;
use linkerd_proxy_core::Unavailable;
use serde_json::Value;

/// The state of each backend, in their order; null for a backend that this worker has not used.
pub fn backend_states(targets: &Targets, query: &BackendsQuery) -> Value {
    let router = targets.peek(&query.target, query.version);
    let routes = router.as_ref().map(|router| router.routes());
    let states = query.backends.iter().map(|backend| {
        let state = routes.and_then(|routes| routes.backend_state(query, backend));
        state.unwrap_or_default()
    });
    states.collect()
}

impl HttpRoutes {
    fn backend_state(&self, query: &BackendsQuery, backend: &Backend) -> Option<Value> {
        let backend = self.backends.peek(&BackendKey {
            parent: query.parent.clone(),
            backend: backend.clone(),
        })?;
        let mut state = backend.inspect();
        let unavailable = backend.unavailable();
        state["available"] = unavailable.is_none().into();
        state["unavailable"] = unavailable.map(Unavailable::describe).into();
        Some(state)
    }
}
