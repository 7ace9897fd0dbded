//! Readiness of the proxy, and the reasons why it is not ready.

use parking_lot::Mutex;
use std::{collections::BTreeMap, pin::pin, sync::Arc};
use tokio::sync::Notify;

/// Pending conditions of readiness. Clones share them.
///
/// No condition is pending at first: the code that starts the proxy holds its own guard until all others are taken.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<ReadinessParts>);

#[derive(Debug, Default)]
struct ReadinessParts {
    state: Mutex<ReadinessState>,
    /// Notified when the proxy becomes ready.
    met: Notify,
}

/// Guard of a pending condition. Dropping the guard meets the condition.
#[derive(Debug)]
#[must_use = "dropping the guard meets its condition"]
pub struct PendingCondition {
    readiness: Readiness,
    id: u64,
}

#[derive(Debug, Default)]
struct ReadinessState {
    next: u64,
    /// By order of registration. Only parts of the proxy register, so the number is small.
    pending: BTreeMap<u64, String>,
    draining: bool,
}

impl Readiness {
    /// A readiness without pending conditions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a pending condition, such as `control plane: destination`, until the guard is dropped.
    pub fn wait_for(&self, what: impl Into<String>) -> PendingCondition {
        let mut state = self.0.state.lock();
        let id = state.next;
        state.next += 1;
        state.pending.insert(id, what.into());
        PendingCondition {
            readiness: self.clone(),
            id,
        }
    }

    /// Names of the pending conditions, oldest first.
    pub fn pending(&self) -> Vec<String> {
        let state = self.0.state.lock();
        let ending = state.draining.then(|| SHUTTING_DOWN.to_owned());
        ending
            .into_iter()
            .chain(state.pending.values().cloned())
            .collect()
    }

    /// Whether no condition is pending.
    pub fn is_ready(&self) -> bool {
        let state = self.0.state.lock();
        state.pending.is_empty() && !state.draining
    }

    /// Waits until no condition is pending, forever if the proxy shuts down before. Cancel safe.
    pub async fn ready(&self) {
        loop {
            // Before the check, so that a condition met after it wakes this wait.
            let mut met = pin!(self.0.met.notified());
            met.as_mut().enable();
            if self.is_ready() {
                return;
            }
            met.await;
        }
    }

    /// Ends readiness for good: the proxy is shutting down.
    pub fn drain(&self) {
        self.0.state.lock().draining = true;
    }
}

impl Drop for PendingCondition {
    fn drop(&mut self) {
        let readiness = &*self.readiness.0;
        readiness.state.lock().pending.remove(&self.id);
        readiness.met.notify_waiters();
    }
}

const SHUTTING_DOWN: &str = "shutting down";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_once_every_guard_is_dropped() {
        let readiness = Readiness::new();
        assert!(readiness.is_ready());
        let start = readiness.wait_for("start");
        let control = readiness.wait_for("control plane: destination");
        let same = readiness.clone().wait_for("start");
        assert_eq!(
            readiness.pending(),
            ["start", "control plane: destination", "start"]
        );
        drop(start);
        assert_eq!(
            readiness.pending(),
            ["control plane: destination", "start"],
            "one of two that have the same name"
        );
        drop((control, same));
        assert!(readiness.is_ready() && readiness.pending().is_empty());
    }

    #[test]
    fn a_wait_ends_with_the_last_condition() {
        let readiness = Readiness::new();
        let (first, last) = (readiness.wait_for("first"), readiness.wait_for("last"));
        let mut ready = tokio_test::task::spawn(readiness.ready());
        tokio_test::assert_pending!(ready.poll());
        drop(first);
        assert!(ready.is_woken());
        tokio_test::assert_pending!(ready.poll());
        drop(last);
        tokio_test::assert_ready!(ready.poll());
    }

    #[test]
    fn what_drains_is_never_ready_again() {
        let readiness = Readiness::new();
        let start = readiness.wait_for("start");
        readiness.drain();
        assert_eq!(readiness.pending(), ["shutting down", "start"]);
        drop(start);
        assert!(!readiness.is_ready());
        assert_eq!(readiness.pending(), ["shutting down"]);
    }
}
