//! The state of a target, as its task publishes it.

use crate::{discovered::Discovered, target::Target};
use linkerd_proxy_core::subscription::{Freshness, Status};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::time::Instant;

/// The state of a target.
#[derive(Clone, Debug)]
pub enum DiscoveryState {
    /// The control plane has not answered yet.
    Pending,
    /// The policy and the profile.
    Ready(Arc<Discovered>),
    /// The control plane refused for good.
    Failed(Arc<DiscoveryError>),
}

/// The control plane refuses to give the policy of a target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the policy of {target} cannot be discovered: {status}")]
pub struct DiscoveryError {
    /// The target.
    pub target: Target,
    /// The status of the call.
    pub status: Status,
    /// The time of the refusal.
    pub at: Instant,
}

/// The freshness of a target's policy and profile, shared by its task and its handles.
#[derive(Debug, Default)]
pub(crate) struct TargetFreshness {
    policy: Mutex<Freshness>,
    profile: Mutex<Freshness>,
}

impl TargetFreshness {
    pub(crate) fn policy(&self) -> Freshness {
        self.policy.lock().clone()
    }

    pub(crate) fn profile(&self) -> Freshness {
        self.profile.lock().clone()
    }

    pub(crate) fn set(&self, policy: &Freshness, profile: &Freshness) {
        self.policy.lock().clone_from(policy);
        self.profile.lock().clone_from(profile);
    }
}
