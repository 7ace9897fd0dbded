//! Signals and figures shared by the task of a destination and its handles.

use linkerd_proxy_core::subscription::Freshness;
use parking_lot::Mutex;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::Notify;

/// Signals from the handles of a destination to its task, and figures from the task.
#[derive(Debug, Default)]
pub(crate) struct DestinationFeedback {
    /// Wakes the task when `unreachable` was set.
    reported: Notify,
    /// Every endpoint was reported as unreachable, and no check has begun since.
    unreachable: AtomicBool,
    freshness: Mutex<Freshness>,
    pub(crate) counts: DiscoveryCounters,
}

/// Counters of one destination, or of all destinations.
#[derive(Debug, Default)]
pub(crate) struct DiscoveryCounters {
    pub(crate) skipped_endpoints: AtomicU64,
    pub(crate) left_out_parts: AtomicU64,
    pub(crate) stale_checked: AtomicU64,
    pub(crate) stale_detected: AtomicU64,
    pub(crate) stale_check_failed: AtomicU64,
}

/// Figures since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DiscoveryStats {
    /// Endpoints that were ignored because they are invalid or exceed the bound.
    pub skipped_endpoints: u64,
    /// Invalid parts of endpoints' metadata that were ignored.
    pub left_out_parts: u64,
    /// Stale checks that confirmed the endpoints.
    pub stale_checked: u64,
    /// Stale checks that found other endpoints.
    pub stale_detected: u64,
    /// Stale checks without an answer.
    pub stale_check_failed: u64,
}

impl DestinationFeedback {
    /// Requests a stale check.
    pub(crate) fn report_unreachable(&self) {
        if !self.unreachable.swap(true, Ordering::Relaxed) {
            self.reported.notify_one();
        }
    }

    /// Waits until a stale check is requested.
    pub(crate) async fn check_requested(&self) {
        while !self.unreachable.load(Ordering::Relaxed) {
            self.reported.notified().await;
        }
    }

    /// Clears the request: the check begins, or cannot begin.
    pub(crate) fn check_begun(&self) {
        self.unreachable.store(false, Ordering::Relaxed);
    }

    pub(crate) fn freshness(&self) -> Freshness {
        self.freshness.lock().clone()
    }

    pub(crate) fn set_freshness(&self, freshness: &Freshness) {
        self.freshness.lock().clone_from(freshness);
    }
}

impl DiscoveryCounters {
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
