//! Penalties on the load estimate of an endpoint.

use std::time::Duration;

/// The penalty of an endpoint that answers that it is overloaded or broken: its latency counts as at least `penalty`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadPenalty {
    /// The latency that the response counts as.
    pub penalty: Duration,
    /// The time constant of the penalty's decay.
    pub decay: Duration,
    /// The limit of an endpoint's `retry-after`, which lengthens the penalty.
    pub max_retry_after: Duration,
}
