//! The task that follows one target's policy and profile.

use crate::{
    discovered::Discovered,
    join::{Join, JoinOutcome},
    policy::ClientPolicy,
    source::{ProfileUpdate, Sources},
    state::{DiscoveryError, DiscoveryState, TargetFreshness},
    synthesize::PolicyDefaults,
    target::Target,
};
use linkerd_proxy_core::subscription::{
    Event, Freshness, Publisher, RateLimit, StreamSettings, Subscription,
};
use rand::{SeedableRng, rngs::SmallRng};
use std::{future::pending, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep_until};

/// Follows one target until it is evicted.
pub(crate) struct FollowTarget {
    sources: Arc<Sources>,
    target: Target,
    publisher: Publisher<DiscoveryState, TargetFreshness>,
    join: Join,
    policy: Freshness,
    profile: Freshness,
    published: Option<JoinOutcome>,
    complaints: RateLimit,
    profile_wait: ProfileWait,
}

/// The wait for a profile after the policy's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProfileWait {
    /// The wait is not longer than usual so far.
    Begun,
    /// The wait is longer than usual; logged.
    Late,
    /// The wait is over: connections go on without the profile.
    Over,
}

impl FollowTarget {
    pub(crate) fn new(
        sources: Arc<Sources>,
        target: Target,
        defaults: Arc<PolicyDefaults>,
        publisher: Publisher<DiscoveryState, TargetFreshness>,
    ) -> Self {
        Self {
            sources,
            join: Join::new(target.clone(), defaults),
            target,
            publisher,
            policy: Freshness::default(),
            profile: Freshness::default(),
            published: None,
            complaints: RateLimit::new(COMPLAINT_INTERVAL),
            profile_wait: ProfileWait::Begun,
        }
    }

    /// Runs until dropped. Without settings for the profile, no profile is followed.
    pub(crate) async fn run(
        &mut self,
        policy: Arc<StreamSettings>,
        profile: Option<Arc<StreamSettings>>,
    ) {
        let (sources, target) = (self.sources.clone(), self.target.clone());
        let policies = move || sources.policies.policies(&target);
        let mut policies = Subscription::new(policies, policy, seed());
        let (sources, target) = (self.sources.clone(), self.target.clone());
        let profiles = move || sources.profiles.profiles(&target);
        let mut profiles = profile.map(|settings| Subscription::new(profiles, settings, seed()));
        if profiles.is_none() {
            self.join.no_profile();
        }
        loop {
            let due = self.next_due();
            tokio::select! {
                event = policies.next() => self.take_policy(event),
                event = next_of(&mut profiles) => self.take_profile(event),
                () = at(due) => self.profile_is_late(),
            }
            // All other updates that have arrived go into the same snapshot.
            for event in std::iter::from_fn(|| policies.ready()).take(MAX_DRAINED) {
                self.take_policy(event);
            }
            if let Some(profiles) = &mut profiles {
                for event in std::iter::from_fn(|| profiles.ready()).take(MAX_DRAINED) {
                    self.take_profile(event);
                }
            }
            self.note();
            self.publish();
        }
    }

    fn take_policy(&mut self, event: Event<ClientPolicy>) {
        let now = Instant::now();
        self.policy.observe(&event, now);
        match event {
            Event::Opened => {}
            Event::Item(policy) => {
                self.policy.applied(now);
                self.complain(&policy, now);
                self.join.policy(policy, now);
            }
            Event::Closed(Some(status)) => {
                tracing::debug!(lookup = %self.target, %status, "policy stream failed; will retry");
            }
            Event::Closed(None) => {}
            Event::Rejected(status) => {
                tracing::debug!(lookup = %self.target, %status, "the control plane has no policy");
                self.join.policy_refused(status, now);
            }
        }
    }

    fn take_profile(&mut self, event: Event<ProfileUpdate>) {
        let now = Instant::now();
        self.profile.observe(&event, now);
        match event {
            Event::Opened => {}
            Event::Item(ProfileUpdate { profile, ignored }) => {
                self.profile.applied(now);
                if !ignored.is_empty()
                    && let Some(unreported) = self.complaints.take(now)
                {
                    tracing::warn!(
                        lookup = %self.target, ?ignored, unreported,
                        "ignored the invalid parts of a profile",
                    );
                }
                self.join.profile(profile);
            }
            Event::Closed(Some(status)) => {
                tracing::debug!(lookup = %self.target, %status, "profile stream failed; will retry");
            }
            Event::Closed(None) => {}
            Event::Rejected(status) => {
                tracing::debug!(lookup = %self.target, %status, "the control plane has no profile");
                self.join.no_profile();
            }
        }
    }

    /// Logs the reason why a policy is invalid.
    fn complain(&mut self, policy: &ClientPolicy, now: Instant) {
        if let Some(reason) = &policy.invalid
            && let Some(unreported) = self.complaints.take(now)
        {
            tracing::warn!(lookup = %self.target, reason, unreported, "the policy is invalid; nothing may pass");
        }
    }

    /// The end of the present wait for the profile.
    fn next_due(&self) -> Option<Instant> {
        let answered_at = self.join.answered_at()?;
        if !self.join.lacks_profile() {
            return None;
        }
        match self.profile_wait {
            ProfileWait::Begun => Some(answered_at + PROFILE_LATE),
            ProfileWait::Late => Some(answered_at + crate::join::PROFILE_WAIT),
            ProfileWait::Over => None,
        }
    }

    fn profile_is_late(&mut self) {
        let error = self.profile.last_error.as_deref().unwrap_or_default();
        self.profile_wait = match self.profile_wait {
            ProfileWait::Begun => {
                tracing::info!(lookup = %self.target, error, "waiting for the profile; the policy is known");
                ProfileWait::Late
            }
            ProfileWait::Late | ProfileWait::Over => {
                tracing::warn!(lookup = %self.target, error, "going on without the profile");
                ProfileWait::Over
            }
        };
    }

    /// Publishes the freshness, and prevents eviction while the control plane is away.
    fn note(&self) {
        self.publisher
            .pin(self.policy.is_orphaned() || self.profile.is_orphaned());
        let freshness = self.publisher.shared();
        freshness.set(&self.policy, &self.profile);
    }

    fn publish(&mut self) {
        let outcome = self.join.outcome(Instant::now());
        if self.published.as_ref() == Some(&outcome) {
            return;
        }
        let state = match &outcome {
            JoinOutcome::Wait | JoinOutcome::WaitForProfile(_) => return,
            JoinOutcome::Ready { policy, profile } => {
                tracing::debug!(lookup = %self.target, parent = %policy.parent, "policy updated");
                DiscoveryState::Ready(Arc::new(Discovered {
                    target: self.target.clone(),
                    policy: policy.clone(),
                    profile: profile.clone(),
                }))
            }
            JoinOutcome::Failed(status) => DiscoveryState::Failed(Arc::new(DiscoveryError {
                target: self.target.clone(),
                status: status.clone(),
                at: tokio::time::Instant::now(),
            })),
        };
        self.publisher.publish(state);
        self.published = Some(outcome);
    }
}

async fn next_of<T>(stream: &mut Option<Subscription<T>>) -> Event<T> {
    match stream {
        Some(stream) => stream.next().await,
        None => pending().await,
    }
}

/// Waits until the time, or for ever.
pub(crate) async fn at(due: Option<Instant>) {
    match due {
        Some(due) => Box::pin(sleep_until(due)).await,
        None => pending().await,
    }
}

fn seed() -> SmallRng {
    SmallRng::from_rng(&mut rand::rng())
}

/// The wait for a profile after which it is logged.
const PROFILE_LATE: Duration = Duration::from_millis(500);
/// The most updates in one snapshot, more than in any burst: a stream without pauses must still be published now and then.
const MAX_DRAINED: usize = 1024;
/// The least time between warnings: one line in ten seconds shows a problem; one for each update would hide others.
const COMPLAINT_INTERVAL: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_future<F: Future>(_: impl FnOnce(FollowTarget) -> F) -> usize {
        size_of::<F>()
    }

    /// Each part is held once; an async function that holds a part twice makes the task twice as large.
    #[test]
    fn the_task_of_a_target_is_small() {
        let settings = || -> Arc<StreamSettings> { unreachable!("it is not run") };
        let run = |mut follow: FollowTarget| async move { follow.run(settings(), None).await };
        let bytes = size_of_future(run);
        assert!(bytes <= 896, "{bytes}");
    }
}
