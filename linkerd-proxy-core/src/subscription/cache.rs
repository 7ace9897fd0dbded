//! A cache of watched state: one task per key, any number of leases.

mod cached_entry;
mod lease;

pub use cached_entry::CachedEntry;
pub use lease::{Lease, Publisher};

use super::occupancy::{Occupancy, Verdict};
use indexmap::IndexMap;
use lease::CacheEntry;
use parking_lot::Mutex;
use serde::Serialize;
use std::{
    fmt,
    hash::Hash,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep_until},
};

/// Watched state by key.
///
/// A look-up of a known key takes one short lock and no await. A look-up of a new key starts its task on the control thread;
/// concurrent look-ups share the task (single flight).
///
/// Bounds: `max_entries`; beyond it the entry with the longest idle time is displaced, and if none is idle the new key
/// is refused. Evicts an entry without leases after `idle_timeout`, unless its task has pinned it.
pub struct Cache<K, S, X> {
    state: Arc<CacheState<K, S, X>>,
}

/// Bounds of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CacheLimits {
    /// How long an entry without leases is kept.
    pub idle_timeout: Duration,
    /// The most entries.
    pub max_entries: usize,
}

/// Every entry of a full cache is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("all {max_entries} entries are in use (the bound is {max_entries})")]
pub struct CacheFull {
    /// The bound.
    pub max_entries: usize,
}

/// Counters of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CacheStats {
    /// Entries that were made.
    pub created: u64,
    /// Unused entries removed after the idle timeout.
    pub evicted: u64,
    /// Unused entries removed to make room.
    pub displaced: u64,
    /// Keys that were refused because the cache was full.
    pub refused: u64,
}

type Entries<K, S, X> = IndexMap<K, Arc<CacheEntry<S, X>>>;

struct CacheState<K, S, X> {
    entries: Mutex<Entries<K, S, X>>,
    limits: CacheLimits,
    runtime: tokio::runtime::Handle,
    created: AtomicU64,
    evicted: AtomicU64,
    displaced: AtomicU64,
    refused: AtomicU64,
}

impl<K, S, X> Cache<K, S, X>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    S: Clone + Send + Sync + 'static,
    X: Send + Sync + 'static,
{
    /// A cache whose tasks run on `runtime`.
    pub fn new(limits: CacheLimits, runtime: tokio::runtime::Handle) -> Self {
        Self {
            state: Arc::new(CacheState {
                entries: Mutex::new(IndexMap::new()),
                limits,
                runtime,
                created: AtomicU64::new(0),
                evicted: AtomicU64::new(0),
                displaced: AtomicU64::new(0),
                refused: AtomicU64::new(0),
            }),
        }
    }

    /// A lease of the entry for `key`, which is created if absent.
    ///
    /// `initial` gives the first state and the shared data; `work` gives the task, which ends when the entry is
    /// evicted.
    pub fn lease<F>(
        &self,
        key: &K,
        initial: impl FnOnce() -> (S, X),
        work: impl FnOnce(Publisher<S, X>) -> F,
    ) -> Result<Lease<S, X>, CacheFull>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (lease, publisher) = {
            let mut entries = self.state.entries.lock();
            if let Some(entry) = entries.get(key) {
                entry.occupancy.lock().lease();
                return Ok(Lease::first(entry.clone()));
            }
            self.state.make_room(&mut entries)?;
            let (state, shared) = initial();
            let (tx, rx) = watch::channel(state);
            let entry = Arc::new(CacheEntry {
                values: rx,
                occupancy: Mutex::new(Occupancy::leased()),
                changed: Notify::new(),
                shared,
            });
            entries.insert(key.clone(), entry.clone());
            let publisher = Publisher {
                values: tx,
                entry: entry.clone(),
            };
            (Lease::first(entry), publisher)
        };
        self.state.created.fetch_add(1, Ordering::Relaxed);
        // Outside of the lock: a runtime that has ended drops the task at once, which takes the lock again.
        let guard = EntryGuard {
            state: self.state.clone(),
            key: key.clone(),
            entry: lease.entry.clone(),
        };
        // Boxed: a task that is moved into another reserves space for both. For the same reason a task borrows its data from the
        // block around it: an async function would hold the data as an argument and as a variable.
        let work = Box::pin(work(publisher));
        self.state
            .runtime
            .spawn(async move { guard.run(work).await });
        Ok(lease)
    }

    /// Removes the entry of `lease`, so that the next lease creates a new one. Existing leases keep the removed entry.
    pub fn retire(&self, key: &K, lease: &Lease<S, X>) {
        let mut entries = self.state.entries.lock();
        if entries
            .get(key)
            .is_some_and(|entry| Arc::ptr_eq(entry, &lease.entry))
        {
            entries.swap_remove(key);
            lease.entry.occupancy.lock().gone = true;
            lease.entry.changed.notify_one();
        }
    }

    /// Calls `show` with every entry.
    pub fn inspect<R>(&self, mut show: impl FnMut(CachedEntry<'_, K, S, X>) -> R) -> Vec<R> {
        // Copied first, so that the lock is not held while entries are shown.
        let entries: Vec<_> = self
            .state
            .entries
            .lock()
            .iter()
            .map(|(key, entry)| (key.clone(), entry.clone()))
            .collect();
        entries
            .iter()
            .map(|(key, entry)| show(entry.shown(key)))
            .collect()
    }

    /// Calls `show` with the entry for `key`, if there is one. Does not count as a use.
    pub fn peek<R>(&self, key: &K, show: impl FnOnce(CachedEntry<'_, K, S, X>) -> R) -> Option<R> {
        let entry = self.state.entries.lock().get(key)?.clone();
        Some(show(entry.shown(key)))
    }

    /// The keys of all entries.
    pub fn keys(&self) -> Vec<K> {
        self.state.entries.lock().keys().cloned().collect()
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.state.entries.lock().len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bounds.
    pub fn limits(&self) -> CacheLimits {
        self.state.limits
    }

    /// The counters.
    pub fn stats(&self) -> CacheStats {
        CacheStats {
            created: self.state.created.load(Ordering::Relaxed),
            evicted: self.state.evicted.load(Ordering::Relaxed),
            displaced: self.state.displaced.load(Ordering::Relaxed),
            refused: self.state.refused.load(Ordering::Relaxed),
        }
    }
}

impl<K, S, X> Clone for Cache<K, S, X> {
    fn clone(&self) -> Self {
        Self {
            state: self.state.clone(),
        }
    }
}

impl<K, S, X> fmt::Debug for Cache<K, S, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("limits", &self.state.limits)
            .finish_non_exhaustive()
    }
}

impl<K, S, X> fmt::Debug for CachedEntry<'_, K, S, X>
where
    K: fmt::Debug,
    S: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedEntry")
            .field("key", self.key)
            .field("leases", &self.leases)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl<K: Eq + Hash, S, X> CacheState<K, S, X> {
    /// Displaces the entry with the longest idle time if the cache is full.
    fn make_room(&self, entries: &mut Entries<K, S, X>) -> Result<(), CacheFull> {
        if entries.len() < self.limits.max_entries {
            return Ok(());
        }
        let idlest = entries
            .values()
            .enumerate()
            .filter_map(|(index, entry)| Some((entry.occupancy.lock().idle_since?, index)))
            .min();
        let Some((_, entry)) = idlest.and_then(|(_, index)| entries.swap_remove_index(index))
        else {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(CacheFull {
                max_entries: self.limits.max_entries,
            });
        };
        entry.occupancy.lock().gone = true;
        entry.changed.notify_one();
        self.displaced.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// The presence of an entry in the cache: dropping the guard removes the entry.
struct EntryGuard<K: Eq + Hash, S, X> {
    state: Arc<CacheState<K, S, X>>,
    key: K,
    entry: Arc<CacheEntry<S, X>>,
}

impl<K: Eq + Hash, S, X> EntryGuard<K, S, X> {
    async fn run<F: Future<Output = ()>>(&self, work: Pin<Box<F>>) {
        let mut eviction = pin!(self.evicted());
        tokio::select! {
            () = &mut eviction => {}
            () = work => eviction.await,
        }
    }

    async fn evicted(&self) {
        loop {
            let verdict = self
                .entry
                .occupancy
                .lock()
                .verdict(Instant::now(), self.state.limits.idle_timeout);
            match verdict {
                Verdict::Gone => return,
                Verdict::Stay => self.entry.changed.notified().await,
                Verdict::StayUntil(at) => tokio::select! {
                    // In a box: most of the time there is no timer.
                    () = Box::pin(sleep_until(at)) => {}
                    () = self.entry.changed.notified() => {}
                },
                Verdict::Leave => {
                    if self.leave() {
                        return;
                    }
                }
            }
        }
    }

    /// Removes the entry unless it was leased meanwhile: leases are made under the lock of the map.
    fn leave(&self) -> bool {
        let mut entries = self.state.entries.lock();
        let mut occupancy = self.entry.occupancy.lock();
        let verdict = occupancy.verdict(Instant::now(), self.state.limits.idle_timeout);
        if verdict == Verdict::Leave {
            occupancy.gone = true;
            entries.swap_remove(&self.key);
            self.state.evicted.fetch_add(1, Ordering::Relaxed);
        }
        occupancy.gone
    }
}

impl<K: Eq + Hash, S, X> Drop for EntryGuard<K, S, X> {
    fn drop(&mut self) {
        let mut entries = self.state.entries.lock();
        // Another entry may have taken its place.
        if entries
            .get(&self.key)
            .is_some_and(|entry| Arc::ptr_eq(entry, &self.entry))
        {
            entries.swap_remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests;
