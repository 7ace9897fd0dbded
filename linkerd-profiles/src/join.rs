//! The join of a target's policy and profile. Pure.

use crate::{policy::ClientPolicy, profile::Profile, synthesize::PolicyDefaults, target::Target};
use linkerd_proxy_core::{
    endpoint::Endpoint,
    subscription::{Code, Status},
};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// The latest answers of both streams.
///
/// | policy | profile | an address is | a name is |
/// |---|---|---|---|
/// | a policy | any | that policy | that policy |
/// | not found, unimplemented | with an endpoint | forwarded to the endpoint | forwarded to the endpoint |
/// | 〃 | with a logical address | forwarded to the address | balanced over the logical address |
/// | 〃 | with neither | forwarded to the address | given an empty policy |
/// | 〃 | none | forwarded to the address | refused |
/// | refused otherwise | any | refused | refused |
///
/// Without [`PolicyDefaults::forward_unknown`], a target without a policy is refused unless its profile has an endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Join {
    target: Target,
    defaults: Arc<PolicyDefaults>,
    policy: Option<Result<Arc<ClientPolicy>, Status>>,
    /// The time of the policy's first answer.
    answered_at: Option<Instant>,
    /// `Some(None)`: there is no profile.
    profile: Option<Option<Arc<Profile>>>,
}

/// The result of the join.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum JoinOutcome {
    /// An answer is missing.
    Wait,
    /// The policy is known; the profile is awaited until this time.
    WaitForProfile(Instant),
    /// The target is discovered.
    Ready {
        policy: Arc<ClientPolicy>,
        profile: Option<Arc<Profile>>,
    },
    /// The target cannot be discovered.
    Failed(Status),
}

impl Join {
    pub(crate) fn new(target: Target, defaults: Arc<PolicyDefaults>) -> Self {
        Self {
            target,
            defaults,
            policy: None,
            answered_at: None,
            profile: None,
        }
    }

    /// Sets the policy. Returns whether it differs from the previous one.
    pub(crate) fn policy(&mut self, policy: ClientPolicy, now: Instant) -> bool {
        self.answered_at.get_or_insert(now);
        if matches!(&self.policy, Some(Ok(same)) if **same == policy) {
            return false;
        }
        self.policy = Some(Ok(Arc::new(policy)));
        true
    }

    /// Notes that the control plane refuses to give a policy. The last one stays in force.
    pub(crate) fn policy_refused(&mut self, status: Status, now: Instant) {
        self.answered_at.get_or_insert(now);
        if !matches!(self.policy, Some(Ok(_))) {
            self.policy = Some(Err(status));
        }
    }

    /// Sets the profile.
    pub(crate) fn profile(&mut self, profile: Profile) {
        if !matches!(&self.profile, Some(Some(same)) if **same == profile) {
            self.profile = Some(Some(Arc::new(profile)));
        }
    }

    /// Notes that there is no profile. The last one stays in force.
    pub(crate) fn no_profile(&mut self) {
        self.profile.get_or_insert(None);
    }

    /// Whether there is no answer for the profile yet.
    pub(crate) fn lacks_profile(&self) -> bool {
        self.profile.is_none()
    }

    /// The time of the policy's first answer.
    pub(crate) fn answered_at(&self) -> Option<Instant> {
        self.answered_at
    }

    /// The result at this time.
    pub(crate) fn outcome(&self, now: Instant) -> JoinOutcome {
        let (Some(answer), Some(answered_at)) = (&self.policy, self.answered_at) else {
            return JoinOutcome::Wait;
        };
        let profile = match &self.profile {
            Some(profile) => profile.clone(),
            None if now < answered_at + PROFILE_WAIT => {
                return JoinOutcome::WaitForProfile(answered_at + PROFILE_WAIT);
            }
            None => None,
        };
        let policy = match answer {
            Ok(policy) => policy.clone(),
            Err(status) if matches!(status.code, Code::NotFound | Code::Unimplemented) => {
                match self.synthesize(profile.as_deref()) {
                    Some(policy) => Arc::new(policy),
                    None => return JoinOutcome::Failed(status.clone()),
                }
            }
            Err(status) => return JoinOutcome::Failed(status.clone()),
        };
        JoinOutcome::Ready { policy, profile }
    }

    /// A policy for a target without one.
    fn synthesize(&self, profile: Option<&Profile>) -> Option<ClientPolicy> {
        let defaults = &self.defaults;
        let endpoint = profile.and_then(|profile| profile.endpoint.clone());
        if let Some(endpoint) = endpoint {
            return Some(defaults.forward(ENDPOINT, endpoint));
        }
        match (&self.target, profile) {
            _ if !defaults.forward_unknown => None,
            (Target::Addr(addr), profile) => {
                let name = profile.map_or(FALLBACK, |_| ENDPOINT);
                Some(defaults.forward(name, Arc::new(Endpoint::new(*addr))))
            }
            (Target::Name(_), Some(profile)) => Some(match &profile.logical {
                Some(logical) => defaults.balance(PROFILE, logical.clone()),
                None => ClientPolicy::empty(),
            }),
            (Target::Name(_), None) => None,
        }
    }
}

/// The time that a connection waits for its profile once its policy is known.
///
/// The two usually arrive within milliseconds of each other, from the same controller. A profile that does not arrive must
/// not delay traffic with a known policy, and is applied whenever it comes; but a profile that is a little late may say
/// "opaque", and the connection's protocol is decided only once.
pub(crate) const PROFILE_WAIT: Duration = Duration::from_secs(3);

const ENDPOINT: &str = "endpoint";
const FALLBACK: &str = "fallback";
const PROFILE: &str = "profile";

#[cfg(test)]
mod tests;
