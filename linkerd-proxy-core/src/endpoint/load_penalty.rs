//! Penalties on the load estimate of an endpoint.

use std::time::Duration;

/// The penalty of an endpoint that answers that it is overloaded or broken: it looks as slow as the penalty is long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadPenalty {
    /// The latency that such a response stands for.
    pub penalty: Duration,
    /// The time constant by which the penalty wears off.
    pub decay: Duration,
    /// The limit for an endpoint's own hint (`retry-after`), which lengthens the penalty.
    pub max_retry_after: Duration,
}
