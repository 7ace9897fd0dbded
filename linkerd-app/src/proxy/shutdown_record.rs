//! The state of the shutdown, for `/state`: written by its owner, read on the control thread.

use crate::config::ShutdownConfig;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::time::Instant;

/// The state of the shutdown. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct ShutdownRecord(Arc<Mutex<(ShutdownPhase, Instant)>>);

/// The states of a shutdown, as `cli/shutdown.rs` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShutdownPhase {
    /// Connections are served.
    Serving,
    /// Connections are served, and asked to move.
    Leaving,
    /// Listeners are closed, and open connections end.
    Draining,
}

impl ShutdownRecord {
    /// A proxy that serves from now on.
    pub(super) fn serving() -> Self {
        Self(Arc::new(Mutex::new((
            ShutdownPhase::Serving,
            Instant::now(),
        ))))
    }

    /// Records the next state.
    pub(super) fn enter(&self, phase: ShutdownPhase) {
        *self.0.lock() = (phase, Instant::now());
    }

    /// The state with its age, its limits, and the listeners of all workers with their connections.
    pub(super) fn inspect(&self, config: &ShutdownConfig, listeners: Value) -> Value {
        let (phase, since) = *self.0.lock();
        json!({
            "state": phase.name(),
            "age_ms": since.elapsed().as_millis() as u64,
            "window_ms": config.window.as_millis() as u64,
            "grace_ms": config.grace.as_millis() as u64,
            "listeners": listeners,
        })
    }
}

impl ShutdownPhase {
    fn name(self) -> &'static str {
        match self {
            Self::Serving => "serving",
            Self::Leaving => "leaving",
            Self::Draining => "draining",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn each_state_has_its_age() {
        let config = ShutdownConfig {
            grace: Duration::from_secs(120),
            window: Duration::from_secs(1),
        };
        let record = ShutdownRecord::serving();
        let shared = record.clone();
        for (phase, name) in [
            (None, "serving"),
            (Some(ShutdownPhase::Leaving), "leaving"),
            (Some(ShutdownPhase::Draining), "draining"),
        ] {
            if let Some(phase) = phase {
                record.enter(phase);
            }
            tokio::time::advance(Duration::from_millis(700)).await;
            let expected = json!({
                "state": name,
                "age_ms": 700,
                "window_ms": 1000,
                "grace_ms": 120_000,
                "listeners": [],
            });
            assert_eq!(shared.inspect(&config, json!([])), expected);
        }
    }
}
