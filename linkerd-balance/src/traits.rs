//! The traits of an endpoint that preferences are about.

use crate::affinity::AffinityKey;
use std::cell::Cell;
use tokio::time::Instant;

/// The traits of an endpoint that preferences are about.
#[derive(Debug)]
pub(crate) struct PreferenceTraits {
    /// Its name, hashed.
    pub(crate) name: AffinityKey,
    /// Whether it is in the own zone, and that is preferred.
    pub(crate) is_local: bool,
    /// When it joined others that were ready. `None`: it begins with its whole share.
    pub(crate) joined: Cell<Option<Instant>>,
}
