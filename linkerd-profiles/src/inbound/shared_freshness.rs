//! The freshness of what one stream brings, as its task shows it to the handles.

use linkerd_proxy_core::subscription::Freshness;
use parking_lot::Mutex;

/// The freshness of what one stream brings, shared by its task and its handles.
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
