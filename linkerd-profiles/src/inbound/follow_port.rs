//! The task that follows the policy of one port.

use super::{
    rate_limit::RateLimiter,
    server_policy::{ServerPolicy, ServerProtocol},
    shared_freshness::SharedFreshness,
    source::ServerPolicySource,
    stream_loss::StreamLoss,
};
use crate::follow::at;
use linkerd_proxy_core::subscription::{
    Event, Freshness, Publisher, RateLimit, Status, StreamSettings, Subscription,
};
use rand::{SeedableRng, rngs::SmallRng};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// Follows one port until it is evicted.
pub(super) struct FollowPort {
    port: u16,
    publisher: Publisher<Arc<ServerPolicy>, SharedFreshness>,
    freshness: Freshness,
    published: Option<Arc<ServerPolicy>>,
    latest: Option<ServerPolicy>,
    complaints: RateLimit,
    loss: StreamLoss,
}

impl FollowPort {
    pub(super) fn new(port: u16, publisher: Publisher<Arc<ServerPolicy>, SharedFreshness>) -> Self {
        Self {
            port,
            publisher,
            freshness: Freshness::default(),
            published: None,
            latest: None,
            complaints: RateLimit::new(COMPLAINT_INTERVAL),
            loss: StreamLoss::new(),
        }
    }

    /// Runs until dropped.
    pub(super) async fn run(
        &mut self,
        source: Arc<dyn ServerPolicySource>,
        settings: Arc<StreamSettings>,
    ) {
        let port = self.port;
        let policies = move || source.server_policies(port);
        let rng = SmallRng::from_rng(&mut rand::rng());
        let mut policies = Subscription::new(policies, settings, rng);
        loop {
            tokio::select! {
                event = policies.next() => self.take(event),
                () = at(self.loss.due()) => self.stays_lost(),
            }
            // Only the last of the updates that have arrived matters.
            for event in std::iter::from_fn(|| policies.ready()).take(MAX_DRAINED) {
                self.take(event);
            }
            self.publisher.pin(self.freshness.is_orphaned());
            self.publisher.shared().set(&self.freshness);
            self.publish();
        }
    }

    fn take(&mut self, event: Event<ServerPolicy>) {
        let (now, port) = (Instant::now(), self.port);
        self.freshness.observe(&event, now);
        match event {
            Event::Opened => {
                if self.loss.opened() {
                    tracing::info!(port, "The policy stream is open again");
                }
            }
            Event::Closed(None) => {}
            Event::Item(policy) => {
                self.freshness.applied(now);
                if let Some(reason) = &policy.invalid
                    && let Some(unreported) = self.complaints.take(now)
                {
                    tracing::warn!(port, reason, unreported, "Server misconfigured");
                }
                self.latest = Some(policy);
            }
            Event::Closed(Some(status)) => match self.loss.lost(&status, now) {
                Some(unreported) => warn_of_loss(port, &status, unreported),
                None => tracing::debug!(port, %status, "policy stream lost; will retry"),
            },
            Event::Rejected(status) => {
                tracing::debug!(port, %status, "the control plane has no policy of the port");
            }
        }
    }

    /// A stream that ended with its connection has found no other.
    fn stays_lost(&mut self) {
        if let Some((status, unreported)) = self.loss.late(Instant::now()) {
            warn_of_loss(self.port, &status, unreported);
        }
    }

    fn publish(&mut self) {
        let Some(mut policy) = self.latest.take() else {
            return;
        };
        if let Some(published) = &self.published {
            if **published == policy {
                return;
            }
            keep_rate_limit(published, &mut policy);
        }
        tracing::debug!(port = self.port, server = %policy.meta, "policy of the port updated");
        let policy = Arc::new(policy);
        self.publisher.publish(policy.clone());
        self.published = Some(policy);
    }
}

fn warn_of_loss(port: u16, status: &Status, unreported: u64) {
    tracing::warn!(
        port, %status, unreported,
        "Unexpected policy controller response; retrying with a backoff",
    );
}

/// Keeps the state of a limit that an update does not change: otherwise each update would admit another burst.
fn keep_rate_limit(old: &ServerPolicy, new: &mut ServerPolicy) {
    let old = old.http().and_then(|http| http.rate_limit.as_ref());
    if let (Some(old), Some(new)) = (old, rate_limit_mut(new))
        && old == new
    {
        *new = old.clone();
    }
}

fn rate_limit_mut(policy: &mut ServerPolicy) -> Option<&mut Arc<RateLimiter>> {
    match &mut policy.protocol {
        ServerProtocol::Detect { http, .. }
        | ServerProtocol::Http1(http)
        | ServerProtocol::Http2(http)
        | ServerProtocol::Grpc(http) => http.rate_limit.as_mut(),
        ServerProtocol::Opaque | ServerProtocol::Tls => None,
    }
}

/// The most updates processed at once, more than in any burst: a stream without pauses must still be published now and then.
const MAX_DRAINED: usize = 1024;

/// The least time between warnings: one line in ten seconds shows a problem; one for each update would hide others.
const COMPLAINT_INTERVAL: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_future<F: Future>(_: impl FnOnce(FollowPort) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn the_task_of_a_port_is_small() {
        let source = || -> Arc<dyn ServerPolicySource> { unreachable!("it is not run") };
        let settings = || -> Arc<StreamSettings> { unreachable!("it is not run") };
        let run = |mut follow: FollowPort| async move { follow.run(source(), settings()).await };
        let bytes = size_of_future(run);
        assert!(bytes <= 1024, "{bytes}");
    }
}
