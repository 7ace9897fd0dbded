//! The traits of an endpoint that preferences use.

use crate::affinity::AffinityKey;
use std::cell::Cell;
use tokio::time::Instant;

/// The traits of an endpoint that preferences use.
#[derive(Debug)]
pub(crate) struct PreferenceTraits {
    /// The hash of the endpoint's name.
    pub(crate) name: AffinityKey,
    /// Whether the endpoint is in the own zone, and that zone is preferred.
    pub(crate) is_local: bool,
    /// The time at which it joined other ready endpoints. `None`: it has its whole share from the start.
    pub(crate) joined: Cell<Option<Instant>>,
}
