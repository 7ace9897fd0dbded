//! The state of the identity API.

use crate::authority::Authority;
use crate::token_keys::TokenKeys;
use std::sync::Arc;
use std::time::Duration;
use tonic::Status;

/// The issuer of certificates, and its settings.
pub(crate) struct IdentityState {
    pub(crate) authority: Option<Arc<Authority>>,
    pub(crate) lifetime: Duration,
    pub(crate) failure: Option<Status>,
    pub(crate) certified: u64,
    /// The keys of tokens. `None`: any token is taken for any name.
    pub(crate) token_keys: Option<Arc<TokenKeys>>,
    /// Names that are never signed.
    pub(crate) reserved: Vec<String>,
}

impl Default for IdentityState {
    fn default() -> Self {
        Self {
            authority: None,
            lifetime: LIFETIME,
            failure: None,
            certified: 0,
            token_keys: None,
            reserved: Vec::new(),
        }
    }
}

impl IdentityState {
    /// Whether a name is never signed: it would be that of the controller, or of all workloads.
    pub(crate) fn is_reserved(&self, name: &str) -> bool {
        let is_own = |own: &String| {
            own.trim_end_matches('.')
                .eq_ignore_ascii_case(name.trim_end_matches('.'))
        };
        name.contains('*') || self.reserved.iter().any(is_own)
    }
}

/// The lifetime of a certificate, as in a cluster.
const LIFETIME: Duration = Duration::from_secs(24 * 3600);
