//! The task that follows one destination.

use crate::{
    endpoints::{EndpointSet, Resolution},
    feedback::{Counts, Feedback},
    held::Held,
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
pub(crate) struct Follow {
    source: Arc<dyn EndpointSource>,
    destination: Destination,
    settings: Arc<StreamSettings>,
    publisher: Publisher<Resolution, Feedback>,
    /// Those of all destinations.
    totals: Arc<Counts>,
    held: Held,
    /// A message has been applied.
    known: bool,
    published: Option<Arc<EndpointSet>>,
    freshness: Freshness,
    warnings: RateLimit,
}

/// A second look, because every endpoint is said to be unreachable.
struct Look {
    stream: Subscription<EndpointUpdate>,
    deadline: Instant,
}

enum Next {
    Primary(Event<EndpointUpdate>),
    LookIsDue,
    Look(Option<Event<EndpointUpdate>>),
}

impl Follow {
    pub(crate) fn new(
        source: Arc<dyn EndpointSource>,
        destination: Destination,
        max_endpoints: usize,
        settings: Arc<StreamSettings>,
        publisher: Publisher<Resolution, Feedback>,
        totals: Arc<Counts>,
    ) -> Self {
        Self {
            source,
            destination,
            settings,
            publisher,
            totals,
            held: Held::new(max_endpoints),
            known: false,
            published: None,
            freshness: Freshness::default(),
            warnings: RateLimit::new(WARNING_INTERVAL),
        }
    }

    /// Runs until it is dropped, or until the control plane refuses for good.
    pub(crate) async fn run(&mut self) {
        let mut primary = self.subscribe();
        let mut looks = RateLimit::new(LOOK_INTERVAL);
        let mut look: Option<Box<Look>> = None;
        loop {
            let next = tokio::select! {
                event = primary.next() => Next::Primary(event),
                event = next_of(&mut look) => Next::Look(event),
                () = look_is_due(&self.publisher, &looks), if look.is_none() => Next::LookIsDue,
            };
            match next {
                Next::Primary(event) => {
                    let mut changed = self.take(event);
                    // Whatever else has arrived goes into the same snapshot.
                    for event in std::iter::from_fn(|| primary.ready()).take(MAX_DRAINED) {
                        changed |= self.take(event);
                    }
                    if changed {
                        self.publish();
                    }
                }
                Next::LookIsDue => {
                    self.publisher.shared().look_begun();
                    let now = Instant::now();
                    if self.known && looks.take(now).is_some() {
                        look = Some(Box::new(Look {
                            stream: self.subscribe(),
                            deadline: now + LOOK_WAIT,
                        }));
                    }
                }
                Next::Look(event) => {
                    if let Some(stream) = self.look(&mut look, event) {
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

    /// Takes an event of the primary stream. Returns whether there is something new to publish.
    fn take(&mut self, event: Event<EndpointUpdate>) -> bool {
        let now = Instant::now();
        self.freshness.observe(&event, now);
        let changed = match event {
            Event::Opened => {
                self.held.reopened();
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

    /// Applies an update. Returns whether there is something new to publish.
    fn apply(&mut self, update: EndpointUpdate, now: Instant) -> bool {
        let EndpointUpdate { change, ignored } = update;
        let applied = change
            .map(|change| self.held.apply(change))
            .unwrap_or_default();
        self.complain(&ignored, applied.beyond_limit, now);
        if !applied.taken {
            return false;
        }
        self.freshness.applied(now);
        // Even an empty first answer is news.
        !std::mem::replace(&mut self.known, true) || applied.changed
    }

    /// Takes what the second look brought. Returns the stream that is to be the primary one from now on.
    fn look(
        &mut self,
        look: &mut Option<Box<Look>>,
        event: Option<Event<EndpointUpdate>>,
    ) -> Option<Subscription<EndpointUpdate>> {
        let update = match event {
            Some(Event::Opened) => return None,
            Some(Event::Item(update)) => update,
            // Failed, refused, or too late. The primary stream goes on as it did.
            Some(Event::Closed(_) | Event::Rejected(_)) | None => {
                *look = None;
                self.count(1, |counts| &counts.stale_check_failed);
                return None;
            }
        };
        let now = Instant::now();
        let mut seen = Held::new(self.held.max_endpoints());
        let EndpointUpdate { change, ignored } = update;
        let applied = change.map(|change| seen.apply(change)).unwrap_or_default();
        self.complain(&ignored, applied.beyond_limit, now);
        if !applied.taken {
            // Nothing usable yet: the next message counts.
            return None;
        }
        let stream = look.take()?.stream;
        let stale = !seen.same_as(&self.held);
        if stale {
            tracing::warn!(destination = %self.destination, "the endpoints held were stale and are replaced");
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
        self.held = seen;
        self.note();
        if stale || refused {
            self.publish();
        }
        Some(stream)
    }

    fn publish(&mut self) {
        let set = self.held.snapshot(
            self.published.as_deref(),
            self.freshness.generation,
            Instant::now(),
        );
        let set = Arc::new(set);
        self.published = Some(set.clone());
        self.publisher.publish(Resolution::Known(set));
    }

    /// Shows how fresh the state is, and holds on to it while it could not be had again.
    fn note(&self) {
        self.publisher.pin(self.freshness.is_orphaned());
        self.publisher.shared().set_freshness(&self.freshness);
    }

    fn complain(&mut self, ignored: &[IgnoredPart], beyond_limit: usize, now: Instant) {
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
            let max = self.held.max_endpoints();
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

    fn count(&self, n: u64, of: impl Fn(&Counts) -> &AtomicU64) {
        for counts in [&self.publisher.shared().counts, &*self.totals] {
            of(counts).fetch_add(n, Ordering::Relaxed);
        }
    }
}

/// The next event of a look, if there is one; `None` when its time is over.
async fn next_of(look: &mut Option<Box<Look>>) -> Option<Event<EndpointUpdate>> {
    let Some(look) = look else {
        return pending().await;
    };
    tokio::select! {
        event = look.stream.next() => Some(event),
        () = Box::pin(sleep_until(look.deadline)) => None,
    }
}

/// Waits until a look was asked for, and for the time when one is allowed.
async fn look_is_due(publisher: &Publisher<Resolution, Feedback>, looks: &RateLimit) {
    publisher.shared().look_wanted().await;
    if let Some(at) = looks.ready_at() {
        Box::pin(sleep_until(at)).await;
    }
}

/// A destination whose pods are really down would otherwise cost a stream per failed connection.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// A controller that is alive answers a look-up within milliseconds; one that is not must not hold the look open.
const LOOK_WAIT: Duration = Duration::from_secs(5);
/// More than any burst holds; a stream that never pauses must still be published now and then.
const MAX_DRAINED: usize = 1024;
/// One line in ten seconds shows a problem; one for each update of a large service would hide others.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_future<F: Future>(_: impl FnOnce(Follow) -> F) -> usize {
        size_of::<F>()
    }

    /// One for each of them; an async function that holds something twice makes it twice as large.
    #[test]
    fn the_task_of_a_destination_is_small() {
        let run = |mut follow: Follow| async move { follow.run().await };
        let bytes = size_of_future(run);
        assert!(bytes <= 640, "{bytes}");
    }
}
