//! What the task of a destination and its handles tell each other.

use linkerd_proxy_core::subscription::Freshness;
use parking_lot::Mutex;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::Notify;

/// What the task and the handles of a destination share.
#[derive(Debug, Default)]
pub(crate) struct Feedback {
    wanted: Notify,
    reported: AtomicBool,
    freshness: Mutex<Freshness>,
    pub(crate) counts: Counts,
}

/// Counts of what happened, for one destination or for all.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) skipped_endpoints: AtomicU64,
    pub(crate) left_out_parts: AtomicU64,
    pub(crate) stale_checked: AtomicU64,
    pub(crate) stale_detected: AtomicU64,
    pub(crate) stale_check_failed: AtomicU64,
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DiscoveryStats {
    /// Endpoints that were left out because they make no sense or exceed the bound.
    pub skipped_endpoints: u64,
    /// Parts of an endpoint's metadata that were left out.
    pub left_out_parts: u64,
    /// Second looks that confirmed what was held.
    pub stale_checked: u64,
    /// Second looks that found it stale.
    pub stale_detected: u64,
    /// Second looks that brought no answer.
    pub stale_check_failed: u64,
}

impl Feedback {
    /// Asks for a second look.
    pub(crate) fn report_unreachable(&self) {
        if !self.reported.swap(true, Ordering::Relaxed) {
            self.wanted.notify_one();
        }
    }

    /// Waits until a second look was asked for.
    pub(crate) async fn look_wanted(&self) {
        while !self.reported.load(Ordering::Relaxed) {
            self.wanted.notified().await;
        }
    }

    /// The second look begins, or cannot.
    pub(crate) fn look_begun(&self) {
        self.reported.store(false, Ordering::Relaxed);
    }

    pub(crate) fn freshness(&self) -> Freshness {
        self.freshness.lock().clone()
    }

    pub(crate) fn set_freshness(&self, freshness: &Freshness) {
        self.freshness.lock().clone_from(freshness);
    }
}

impl Counts {
    pub(crate) fn stats(&self) -> DiscoveryStats {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        DiscoveryStats {
            skipped_endpoints: count(&self.skipped_endpoints),
            left_out_parts: count(&self.left_out_parts),
            stale_checked: count(&self.stale_checked),
            stale_detected: count(&self.stale_detected),
            stale_check_failed: count(&self.stale_check_failed),
        }
    }
}
