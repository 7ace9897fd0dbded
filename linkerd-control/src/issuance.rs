//! The state of the identity API.

use crate::authority::Authority;
use std::sync::Arc;
use std::time::Duration;
use tonic::Status;

/// The issuer of certificates, and its settings.
pub(crate) struct IdentityState {
    pub(crate) authority: Option<Arc<Authority>>,
    pub(crate) lifetime: Duration,
    pub(crate) failure: Option<Status>,
    pub(crate) certified: u64,
}

impl Default for IdentityState {
    fn default() -> Self {
        Self {
            authority: None,
            lifetime: LIFETIME,
            failure: None,
            certified: 0,
        }
    }
}

/// The lifetime of a certificate, as in a cluster.
const LIFETIME: Duration = Duration::from_secs(24 * 3600);
