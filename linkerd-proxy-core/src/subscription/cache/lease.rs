//! The two ends of a cache entry: leases, and the publisher of its task.

use super::cached_entry::CachedEntry;
use crate::subscription::occupancy::Occupancy;
use parking_lot::Mutex;
use std::{fmt, sync::Arc};
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};

/// A hold on an entry: while it lives, the entry is not evicted.
pub struct Lease<S, X> {
    values: watch::Receiver<S>,
    pub(super) entry: Arc<CacheEntry<S, X>>,
}

/// The task's side of an entry.
pub struct Publisher<S, X> {
    pub(super) values: watch::Sender<S>,
    pub(super) entry: Arc<CacheEntry<S, X>>,
}

/// An entry, shared by the cache, the task and the leases.
pub(super) struct CacheEntry<S, X> {
    pub(super) values: watch::Receiver<S>,
    pub(super) occupancy: Mutex<Occupancy>,
    pub(super) changed: Notify,
    pub(super) shared: X,
}

impl<S: Clone, X> CacheEntry<S, X> {
    /// The entry in an inspection.
    pub(super) fn shown<'a, K>(&'a self, key: &'a K) -> CachedEntry<'a, K, S, X> {
        let occupancy = *self.occupancy.lock();
        CachedEntry {
            key,
            leases: occupancy.leases,
            idle: occupancy.idle_since.map(|since| since.elapsed()),
            pinned: occupancy.pinned,
            state: self.values.borrow().clone(),
            shared: &self.shared,
        }
    }
}

impl<S, X> Lease<S, X> {
    pub(super) fn first(entry: Arc<CacheEntry<S, X>>) -> Self {
        let mut values = entry.values.clone();
        values.mark_changed();
        Self { values, entry }
    }

    /// The state as a watch channel.
    pub fn values(&self) -> &watch::Receiver<S> {
        &self.values
    }

    /// The state as a watch channel, to wait for a change.
    pub fn values_mut(&mut self) -> &mut watch::Receiver<S> {
        &mut self.values
    }

    /// Data shared by the task and the leases.
    pub fn shared(&self) -> &X {
        &self.entry.shared
    }
}

impl<S, X> Clone for Lease<S, X> {
    fn clone(&self) -> Self {
        self.entry.occupancy.lock().lease();
        Self {
            values: self.values.clone(),
            entry: self.entry.clone(),
        }
    }
}

impl<S, X> Drop for Lease<S, X> {
    fn drop(&mut self) {
        if self.entry.occupancy.lock().release(Instant::now()) {
            self.entry.changed.notify_one();
        }
    }
}

impl<S: fmt::Debug, X> fmt::Debug for Lease<S, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("state", &*self.values.borrow())
            .finish_non_exhaustive()
    }
}

impl<S, X> Publisher<S, X> {
    /// Replaces the state and wakes its observers.
    pub fn publish(&self, state: S) {
        self.values.send_replace(state);
    }

    /// Suspends eviction: the state cannot be fetched again at present.
    pub fn pin(&self, pinned: bool) {
        let mut occupancy = self.entry.occupancy.lock();
        if occupancy.pinned != pinned {
            occupancy.pinned = pinned;
            drop(occupancy);
            self.entry.changed.notify_one();
        }
    }

    /// Data shared by the task and the leases.
    pub fn shared(&self) -> &X {
        &self.entry.shared
    }
}

impl<S: fmt::Debug, X> fmt::Debug for Publisher<S, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher")
            .field("state", &*self.values.borrow())
            .finish_non_exhaustive()
    }
}
