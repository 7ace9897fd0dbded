//! The profile of a service, as far as it is known.

use super::shared_freshness::SharedFreshness;
use crate::profile::Profile;
use std::sync::Arc;
use tokio::time::Instant;

/// The profile of a service, as far as it is known.
#[derive(Clone, Debug)]
pub enum ServiceProfile {
    /// The control plane has not answered yet.
    Pending,
    /// The present profile.
    Found(Arc<Profile>),
    /// The control plane has none.
    Refused,
}

/// The look-up of a profile, shared by its task and its handles.
#[derive(Debug)]
pub(super) struct ProfileLookup {
    /// When it began.
    pub(super) asked_at: Instant,
    /// The freshness of the profile.
    pub(super) freshness: SharedFreshness,
}
