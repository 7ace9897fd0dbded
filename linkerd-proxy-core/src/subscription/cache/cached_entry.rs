//! An entry as shown by an inspection.

use std::time::Duration;

/// An entry in a cache's inspection.
pub struct CachedEntry<'a, K, S, X> {
    /// The key of the entry.
    pub key: &'a K,
    /// The number of leases.
    pub leases: usize,
    /// Time since the last lease was dropped.
    pub idle: Option<Duration>,
    /// Whether eviction is suspended.
    pub pinned: bool,
    /// The latest state.
    pub state: S,
    /// Data shared by the task and the leases.
    pub shared: &'a X,
}
