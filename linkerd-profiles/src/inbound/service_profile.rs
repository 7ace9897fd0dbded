//! The profile of a service, as far as it is known.

use crate::profile::Profile;
use std::sync::Arc;

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
