//! The task that follows the profile of one service.

use super::service_profile::{ProfileLookup, ServiceProfile};
use crate::{
    source::{ProfileSource, ProfileUpdate},
    target::Target,
};
use linkerd_proxy_core::{
    Destination,
    subscription::{Event, Freshness, Publisher, RateLimit, StreamSettings, Subscription},
};
use rand::{SeedableRng, rngs::SmallRng};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};

/// Follows one service until it is evicted.
pub(super) struct FollowProfile {
    name: Destination,
    publisher: Publisher<ServiceProfile, ProfileLookup>,
    freshness: Freshness,
    complaints: RateLimit,
}

impl FollowProfile {
    pub(super) fn new(
        name: Destination,
        publisher: Publisher<ServiceProfile, ProfileLookup>,
    ) -> Self {
        Self {
            name,
            publisher,
            freshness: Freshness::default(),
            complaints: RateLimit::new(COMPLAINT_INTERVAL),
        }
    }

    /// Runs until dropped. A service that the control plane does not know may be created later: the look-up is repeated.
    pub(super) async fn run(
        &mut self,
        source: Arc<dyn ProfileSource>,
        settings: Arc<StreamSettings>,
    ) {
        loop {
            let (source, target) = (source.clone(), Target::Name(self.name.clone()));
            let profiles = move || source.profiles(&target);
            self.follow(Subscription::new(profiles, settings.clone(), seed()))
                .await;
            sleep(REFUSAL_STANDS).await;
        }
    }

    /// Follows one subscription until it is refused.
    async fn follow(&mut self, mut profiles: Subscription<ProfileUpdate>) {
        loop {
            let mut event = profiles.next().await;
            let mut latest = None;
            for _ in 0..MAX_DRAINED {
                self.freshness.observe(&event, Instant::now());
                match event {
                    Event::Item(update) => latest = Some(self.applied(update)),
                    Event::Rejected(status) => {
                        tracing::debug!(lookup = %self.name, %status, "the control plane has no profile");
                        self.publisher.shared().freshness.set(&self.freshness);
                        self.publisher.publish(ServiceProfile::Refused);
                        return;
                    }
                    Event::Closed(Some(status)) => {
                        tracing::debug!(lookup = %self.name, %status, "profile stream failed; will retry");
                    }
                    Event::Opened | Event::Closed(None) => {}
                }
                // Only the last of the updates that have arrived matters.
                match profiles.ready() {
                    Some(next) => event = next,
                    None => break,
                }
            }
            self.publisher.shared().freshness.set(&self.freshness);
            if let Some(profile) = latest {
                self.publisher.publish(profile);
            }
        }
    }

    fn applied(&mut self, update: ProfileUpdate) -> ServiceProfile {
        let now = Instant::now();
        self.freshness.applied(now);
        let ProfileUpdate { profile, ignored } = update;
        if !ignored.is_empty()
            && let Some(unreported) = self.complaints.take(now)
        {
            tracing::warn!(
                lookup = %self.name, ?ignored, unreported,
                "ignored the invalid parts of a profile",
            );
        }
        ServiceProfile::Found(Arc::new(profile))
    }
}

fn seed() -> SmallRng {
    SmallRng::from_rng(&mut rand::rng())
}

/// The most updates processed at once, more than in any burst: a stream without pauses must still be published now and then.
const MAX_DRAINED: usize = 1024;

/// The least time between warnings: one line in ten seconds shows a problem; one for each update would hide others.
const COMPLAINT_INTERVAL: Duration = Duration::from_secs(10);

/// The time for which a refusal is kept. Clients choose names: a name without a service must not reach the control plane often.
const REFUSAL_STANDS: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_future<F: Future>(_: impl FnOnce(FollowProfile) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn the_task_of_a_service_is_small() {
        let source = || -> Arc<dyn ProfileSource> { unreachable!("it is not run") };
        let settings = || -> Arc<StreamSettings> { unreachable!("it is not run") };
        let run = |mut follow: FollowProfile| async move { follow.run(source(), settings()).await };
        let bytes = size_of_future(run);
        assert!(bytes <= 1024, "{bytes}");
    }
}
