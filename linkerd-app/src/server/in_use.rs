//! Values that are kept while connections use them, and for a while after.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    hash::Hash,
    rc::Rc,
    time::Duration,
};
use tokio::time::Instant;

/// Values by key, shared by the connections that use them.
///
/// - **Bounds**: a value that nothing has used for the idle timeout is dropped at the next sweep. The owner bounds the number.
pub struct InUse<K, V>(RefCell<HashMap<K, Entry<V>>>);

struct Entry<V> {
    value: Rc<V>,
    idle_since: Cell<Option<Instant>>,
}

impl<K: Hash + Eq, V> InUse<K, V> {
    /// The value of a key, if it is kept.
    pub fn get(&self, key: &K) -> Option<Rc<V>> {
        let entries = self.0.borrow();
        entries.get(key).map(Entry::take)
    }

    /// The value of a key, built by `make` if it is not kept.
    pub fn get_or_insert(&self, key: K, make: impl FnOnce(&K) -> V) -> Rc<V> {
        let mut entries = self.0.borrow_mut();
        let new = |key: &K| Entry {
            value: Rc::new(make(key)),
            idle_since: Cell::new(None),
        };
        entries.entry(key).or_insert_with_key(new).take()
    }

    /// Drops the unused values.
    pub fn drop_unused(&self) {
        self.0.borrow_mut().retain(|_, entry| entry.users() > 0);
    }

    /// Drops the values that are not to be kept; their users keep them.
    pub fn retain(&self, is_kept: impl Fn(&V) -> bool) {
        let is_kept = |entry: &Entry<V>| is_kept(&entry.value);
        self.0.borrow_mut().retain(|_, entry| is_kept(entry));
    }

    /// Sweeps as long as the worker runs: after each `idle`, or `at_least` if that is shorter.
    pub async fn sweep_regularly(&self, idle: Duration, at_least: Duration) {
        let mut ticks = tokio::time::interval(idle.clamp(SWEEP_MIN, at_least));
        loop {
            ticks.tick().await;
            self.sweep(idle, Instant::now());
        }
    }

    /// Drops the values that were unused for the idle timeout.
    fn sweep(&self, idle: Duration, now: Instant) {
        self.0.borrow_mut().retain(|_, entry| {
            if entry.users() > 0 {
                entry.idle_since.set(None);
                return true;
            }
            let since = entry.idle_since.get().unwrap_or(now);
            entry.idle_since.set(Some(since));
            now.saturating_duration_since(since) < idle
        });
    }

    /// The number of values.
    pub fn count(&self) -> usize {
        self.0.borrow().len()
    }

    /// Shows each value and the number of its users, for `/state`.
    pub fn inspect(&self, show: impl Fn(&K, &V, usize) -> serde_json::Value) -> serde_json::Value {
        let entries = self.0.borrow();
        let shown = entries
            .iter()
            .map(|(key, entry)| show(key, &entry.value, entry.users()));
        shown.collect()
    }
}

impl<V> Entry<V> {
    /// The value for a user, whose use may be over before the next sweep.
    fn take(&self) -> Rc<V> {
        self.idle_since.set(None);
        self.value.clone()
    }

    fn users(&self) -> usize {
        Rc::strong_count(&self.value) - 1
    }
}

impl<K, V> Default for InUse<K, V> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

/// The shortest time between two sweeps.
const SWEEP_MIN: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_value_is_kept_while_it_is_used_and_for_a_while_after() {
        let (values, idle) = (InUse::default(), Duration::from_secs(5));
        let sweep = || values.sweep(idle, Instant::now());
        let used = values.get_or_insert("a", |_| 1);
        assert_eq!(*values.get_or_insert("a", |_| 2), 1);
        for _ in 0..2 {
            sweep();
            tokio::time::advance(2 * idle).await;
        }
        drop(used);
        sweep();
        assert_eq!(values.count(), 1, "it is idle since this sweep");
        tokio::time::advance(idle / 2).await;
        sweep();
        assert!(values.get(&"a").is_some());
        sweep();
        tokio::time::advance(idle).await;
        sweep();
        assert_eq!(values.count(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_value_that_is_used_between_sweeps_alone_is_kept() {
        let (values, idle) = (InUse::default(), Duration::from_secs(5));
        for _ in 0..5 {
            values.get_or_insert("a", |_| 1);
            values.get(&"a");
            values.sweep(idle, Instant::now());
            assert_eq!(values.count(), 1);
            tokio::time::advance(idle).await;
        }
    }

    #[test]
    fn unused_values_make_room() {
        let values = InUse::default();
        let kept = values.get_or_insert("a", |_| 1);
        values.get_or_insert("b", |_| 2);
        values.drop_unused();
        assert_eq!((values.count(), *kept), (1, 1));
        let shown = values.inspect(|key, _, users| format!("{key}: {users}").into());
        assert_eq!(shown, serde_json::json!(["a: 1"]));
    }
}
