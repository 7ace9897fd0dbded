//! The known state of a service's profile.

use super::shared_freshness::SharedFreshness;
use crate::profile::Profile;
use std::sync::Arc;
use tokio::time::Instant;

/// The known state of a service's profile.
#[derive(Clone, Debug)]
pub enum ServiceProfile {
    /// The control plane has not answered yet.
    Pending,
    /// The present profile.
    Found(Arc<Profile>),
    /// The control plane has no profile.
    Refused,
}

/// The look-up of a profile, shared by its task and its handles.
#[derive(Debug)]
pub(super) struct ProfileLookup {
    /// The start of the look-up.
    pub(super) asked_at: Instant,
    /// The freshness of the profile.
    pub(super) freshness: SharedFreshness,
}
