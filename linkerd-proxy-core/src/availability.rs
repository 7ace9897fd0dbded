//! What an endpoint's client tells the balancer about itself.

use crate::Reason;
use std::{rc::Rc, time::Duration};
use tokio::time::Instant;

/// Whether an endpoint can take a request, and if not, why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndpointState {
    /// It can take a request.
    Ready,
    /// The first connection is being made.
    Connecting,
    /// The last connection attempt failed; the next begins at `until`.
    BackingOff {
        /// When the next attempt begins.
        until: Instant,
        /// How many attempts have failed in a row.
        failures: u32,
        /// Why the last one failed.
        reason: Reason,
        /// Its error.
        error: Rc<str>,
    },
    /// Every connection carries as many streams as its peer allows.
    StreamLimit,
}

/// An endpoint's view of itself.
pub trait Availability {
    /// The present state.
    fn state(&self) -> EndpointState;

    /// Somebody waits for this endpoint: an attempt that is not due for long should begin now.
    fn wanted(&self) {}

    /// A request that this endpoint returned was not taken by any other: its failure stands.
    fn gave_up(&self, _error: &crate::Error) {}

    /// Figures for `/state`, such as the size of a connection pool.
    fn inspect(&self) -> serde_json::Value {
        serde_json::Value::Null
    }
}

impl EndpointState {
    /// The word for it in `/state` and in logs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Connecting => "connecting",
            Self::BackingOff { .. } => "backing off",
            Self::StreamLimit => "at stream limit",
        }
    }

    /// How long until the next attempt, when one is due.
    pub fn retry_in(&self, now: Instant) -> Option<Duration> {
        match self {
            Self::BackingOff { until, .. } => Some(until.saturating_duration_since(now)),
            _ => None,
        }
    }
}
