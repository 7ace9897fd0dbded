//! The freshness of the state from one stream, published by its task to the handles.

use linkerd_proxy_core::subscription::Freshness;
use parking_lot::Mutex;

/// The freshness of the state from one stream, shared by its task and its handles.
#[derive(Debug, Default)]
pub(super) struct SharedFreshness(Mutex<Freshness>);

impl SharedFreshness {
    pub(super) fn get(&self) -> Freshness {
        self.0.lock().clone()
    }

    pub(super) fn set(&self, freshness: &Freshness) {
        self.0.lock().clone_from(freshness);
    }
}
