//! Sources of policies and profiles, in the proxy's own terms.

use crate::{policy::ClientPolicy, profile::Profile, target::Target};
use linkerd_proxy_core::subscription::Call;

/// A source of policies: a control plane, a file, a test.
pub trait PolicySource: Send + Sync + 'static {
    /// Subscribes to the policy of a target. Each item replaces the previous one.
    ///
    /// A policy carries its problems: the reason why it is invalid, and its parts without effect. A subscription may have its
    /// own stream, or share one stream that serves all targets. After its end another follows, within the waits and limits of
    /// [`PoliciesConfig`](crate::PoliciesConfig).
    fn policies(&self, target: &Target) -> Call<ClientPolicy>;
}

/// A source of profiles.
pub trait ProfileSource: Send + Sync + 'static {
    /// Subscribes to the profile of a target. Each item replaces the previous one. In other respects like
    /// [`PolicySource::policies`].
    fn profiles(&self, target: &Target) -> Call<ProfileUpdate>;
}

/// A profile, and the problems of its message.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileUpdate {
    /// The profile.
    pub profile: Profile,
    /// The invalid parts, which were ignored.
    pub ignored: Vec<String>,
}

/// The sources of policies and profiles.
pub(crate) struct Sources {
    pub(crate) policies: Box<dyn PolicySource>,
    pub(crate) profiles: Box<dyn ProfileSource>,
}

impl From<Profile> for ProfileUpdate {
    fn from(profile: Profile) -> Self {
        Self {
            profile,
            ignored: Vec::new(),
        }
    }
}
