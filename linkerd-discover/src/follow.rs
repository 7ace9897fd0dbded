//! The task that follows one destination.

use crate::{
    endpoint_table::EndpointTable,
    endpoints::{EndpointSet, Resolution},
    feedback::{DestinationFeedback, DiscoveryCounters},
    source::{EndpointSource, EndpointUpdate, IgnoredPart},
};
use linkerd_proxy_core::{
    Destination,
    subscription::{Event, Freshness, Publisher, RateLimit, StreamSettings, Subscription},
};
use rand::{SeedableRng, rngs::SmallRng};
use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::time::{Instant, sleep_until};

/// Follows one destination until it is evicted.
pub(crate) struct FollowDestination {
    source: Arc<dyn EndpointSource>,
    destination: Destination,
    settings: Arc<StreamSettings>,
    publisher: Publisher<Resolution, DestinationFeedback>,
    /// The counters of all destinations.
    totals: Arc<DiscoveryCounters>,
    table: EndpointTable,
    /// An update was applied.
    known: bool,
    published: Option<Arc<EndpointSet>>,
    freshness: Freshness,
    warnings: RateLimit,
}

/// A second subscription, because every endpoint was reported as unreachable.
struct StaleCheck {
    stream: Subscription<EndpointUpdate>,
    deadline: Instant,
}

enum Next {
    Primary(Event<EndpointUpdate>),
    CheckIsDue,
    Check(Option<Event<EndpointUpdate>>),
}

impl FollowDestination {
    pub(crate) fn new(
        source: Arc<dyn EndpointSource>,
        destination: Destination,
        max_endpoints: usize,
        settings: Arc<StreamSettings>,
        publisher: Publisher<Resolution, DestinationFeedback>,
        totals: Arc<DiscoveryCounters>,
    ) -> Self {
        Self {
            source,
            destination,
            settings,
            publisher,
            totals,
            table: EndpointTable::new(max_endpoints),
            known: false,
            published: None,
            freshness: Freshness::default(),
            warnings: RateLimit::new(WARNING_INTERVAL),
        }
    }

    /// Runs until dropped, or until the control plane refuses for good.
    pub(crate) async fn run(&mut self) {
        let mut primary = self.subscribe();
        let mut checks = RateLimit::new(CHECK_INTERVAL);
        let mut check: Option<Box<StaleCheck>> = None;
        loop {
            let next = tokio::select! {
                event = primary.next() => Next::Primary(event),
                event = next_of(&mut check) => Next::Check(event),
                () = check_is_due(&self.publisher, &checks), if check.is_none() => Next::CheckIsDue,
            };
            match next {
                Next::Primary(event) => {
                    let mut changed = self.take(event);
                    // All other updates that have arrived go into the same snapshot.
                    for event in std::iter::from_fn(|| primary.ready()).take(MAX_DRAINED) {
                        changed |= self.take(event);
                    }
                    if changed {
                        self.publish();
                    }
                }
                Next::CheckIsDue => {
                    self.publisher.shared().check_begun();
                    let now = Instant::now();
                    if self.known && checks.take(now).is_some() {
                        check = Some(Box::new(StaleCheck {
                            stream: self.subscribe(),
                            deadline: now + CHECK_TIMEOUT,
                        }));
                    }
                }
                Next::Check(event) => {
                    if let Some(stream) = self.take_check(&mut check, event) {
                        primary = stream;
                    }
                }
            }
        }
    }

    fn subscribe(&self) -> Subscription<EndpointUpdate> {
        let (source, destination) = (self.source.clone(), self.destination.clone());
        let rng = SmallRng::from_rng(&mut rand::rng());
        Subscription::new(
            move || source.endpoints(&destination),
            self.settings.clone(),
            rng,
        )
    }

    /// Processes an event of the primary stream. Returns whether there is a new set to publish.
    fn take(&mut self, event: Event<EndpointUpdate>) -> bool {
        let now = Instant::now();
        self.freshness.observe(&event, now);
        let changed = match event {
            Event::Opened => {
                self.table.reopened();
                false
            }
            Event::Item(update) => self.apply(update, now),
            Event::Closed(status) => {
                if let Some(status) = status {
                    tracing::debug!(destination = %self.destination, %status, "endpoint stream failed; will retry");
                }
                false
            }
            Event::Rejected(status) => {
                tracing::warn!(destination = %self.destination, %status, "the control plane refuses the destination");
                self.publisher
                    .publish(Resolution::Rejected(Arc::new(status)));
                false
            }
        };
        self.note();
        changed
    }

    /// Applies an update. Returns whether there is a new set to publish.
    fn apply(&mut self, update: EndpointUpdate, now: Instant) -> bool {
        let EndpointUpdate { change, ignored } = update;
        let applied = change
            .map(|change| self.table.apply(change))
            .unwrap_or_default();
        self.report_ignored(&ignored, applied.beyond_limit, now);
        if !applied.taken {
            return false;
        }
        self.freshness.applied(now);
        // Even an empty first answer is published.
        !std::mem::replace(&mut self.known, true) || applied.changed
    }

    /// Processes an event of the stale check. Returns its stream if that becomes the primary one.
    fn take_check(
        &mut self,
        check: &mut Option<Box<StaleCheck>>,
        event: Option<Event<EndpointUpdate>>,
    ) -> Option<Subscription<EndpointUpdate>> {
        let update = match event {
            Some(Event::Opened) => return None,
            Some(Event::Item(update)) => update,
            // Failed, refused, or timed out. The primary stream goes on unchanged.
            Some(Event::Closed(_) | Event::Rejected(_)) | None => {
                *check = None;
                self.count(1, |counts| &counts.stale_check_failed);
                return None;
            }
        };
        let now = Instant::now();
        let mut seen = EndpointTable::new(self.table.max_endpoints());
        let EndpointUpdate { change, ignored } = update;
        let applied = change.map(|change| seen.apply(change)).unwrap_or_default();
        self.report_ignored(&ignored, applied.beyond_limit, now);
        if !applied.taken {
            // No valid part yet: the next message counts.
            return None;
        }
        let stream = check.take()?.stream;
        let stale = !seen.same_as(&self.table);
        if stale {
            tracing::warn!(destination = %self.destination, "the endpoints were stale and are replaced");
            self.count(1, |counts| &counts.stale_detected);
        } else {
            self.count(1, |counts| &counts.stale_checked);
            if self.freshness.connected {
                return None;
            }
        }
        let refused = self.freshness.rejected;
        self.freshness.observe::<()>(&Event::Opened, now);
        self.freshness.applied(now);
        self.table = seen;
        self.note();
        if stale || refused {
            self.publish();
        }
        Some(stream)
    }

    fn publish(&mut self) {
        let set = self.table.snapshot(
            self.published.as_deref(),
            self.freshness.generation,
            Instant::now(),
        );
        tracing::debug!(destination = %self.destination, endpoints = set.endpoints.len(), "endpoints updated");
        let set = Arc::new(set);
        self.published = Some(set.clone());
        self.publisher.publish(Resolution::Known(set));
    }

    /// Publishes the freshness, and prevents eviction while the control plane is away.
    fn note(&self) {
        self.publisher.pin(self.freshness.is_orphaned());
        self.publisher.shared().set_freshness(&self.freshness);
    }

    fn report_ignored(&mut self, ignored: &[IgnoredPart], beyond_limit: usize, now: Instant) {
        let parts = ignored
            .iter()
            .filter(|ignored| matches!(ignored, IgnoredPart::Metadata { .. }))
            .count();
        let skipped = ignored.len() - parts + beyond_limit;
        if skipped + parts == 0 {
            return;
        }
        self.count(skipped as u64, |counts| &counts.skipped_endpoints);
        self.count(parts as u64, |counts| &counts.left_out_parts);
        if let Some(unreported) = self.warnings.take(now) {
            let max = self.table.max_endpoints();
            let first = match ignored.first() {
                Some(first) => first.to_string(),
                None => format!("there are more than {max} endpoints"),
            };
            tracing::warn!(
                destination = %self.destination, skipped, parts, unreported, first,
                "ignored the invalid parts of an endpoint update",
            );
        }
    }

    fn count(&self, n: u64, of: impl Fn(&DiscoveryCounters) -> &AtomicU64) {
        for counts in [&self.publisher.shared().counts, &*self.totals] {
            of(counts).fetch_add(n, Ordering::Relaxed);
        }
    }
}

/// The next event of a stale check, if there is one; `None` when its time is over.
async fn next_of(check: &mut Option<Box<StaleCheck>>) -> Option<Event<EndpointUpdate>> {
    let Some(check) = check else {
        return pending().await;
    };
    tokio::select! {
        event = check.stream.next() => Some(event),
        () = Box::pin(sleep_until(check.deadline)) => None,
    }
}

/// Waits until a stale check is requested, and then until one is allowed.
async fn check_is_due(publisher: &Publisher<Resolution, DestinationFeedback>, checks: &RateLimit) {
    publisher.shared().check_requested().await;
    if let Some(at) = checks.ready_at() {
        Box::pin(sleep_until(at)).await;
    }
}

/// The least time between stale checks: otherwise a destination whose pods are really down would cost a stream per failed
/// connection.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// The limit of a check: a live controller answers a call within milliseconds; a dead one must not hold the check open.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);
/// The most updates in one snapshot, more than in any burst: a stream without pauses must still be published now and then.
const MAX_DRAINED: usize = 1024;
/// The least time between warnings: one line in ten seconds shows a problem; one for each update would hide others.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_future<F: Future>(_: impl FnOnce(FollowDestination) -> F) -> usize {
        size_of::<F>()
    }

    /// Each part is held once; an async function that holds a part twice makes the task twice as large.
    #[test]
    fn the_task_of_a_destination_is_small() {
        let run = |mut follow: FollowDestination| async move { follow.run().await };
        let bytes = size_of_future(run);
        assert!(bytes <= 656, "{bytes}");
    }
}
