//! Stage 6: the endpoints of a destination, as changes for a balancer.

use super::context::Context;
use crate::metrics::BalancerFamilies;
use futures::{
    StreamExt,
    stream::{LocalBoxStream, unfold},
};
use indexmap::IndexMap;
use linkerd_balance::{Balance, Params};
use linkerd_discover::{EndpointSet, EndpointWatch, Resolution};
use linkerd_profiles::{Endpoint, PeakEwma};
use linkerd_proxy_core::{
    Availability, Error, Failed, NewService, Reason, http::QueueSettings, metrics::LabelSet,
};
use std::{net::SocketAddr, sync::Arc};
use tower::discover::Change;
use tower_service::Service;

/// What a balancer is made for.
pub struct Target<'a> {
    /// The destination, a `name:port`.
    pub path: &'a str,
    /// How load is estimated.
    pub load: PeakEwma,
    /// The bounds of its queue.
    pub queue: QueueSettings,
    /// The families of its kind.
    pub families: &'a BalancerFamilies,
    /// The labels of its series.
    pub labels: LabelSet,
}

/// A balancer over the endpoints of a destination, each served by what `new_endpoint` makes.
pub fn new_balance<N, S, Req>(
    ctx: &Context,
    target: Target<'_>,
    new_endpoint: N,
) -> Result<Balance<SocketAddr, S>, Error>
where
    N: NewService<Arc<Endpoint>, Service = S> + 'static,
    S: Service<Req, Error = Failed<Req>> + Availability + 'static,
    Req: 'static,
{
    let watch = ctx.discovery.endpoints(target.path).map_err(|error| {
        let reason = match &error {
            linkerd_discover::Error::Full(_) => Reason::DestinationLimit,
            linkerd_discover::Error::InvalidDestination(_) => Reason::InvalidBackend,
        };
        Error::new(reason).detail(error.to_string())
    })?;
    let queue = ctx.queue(target.queue);
    let reporter = watch.clone();
    let params = Params {
        name: target.path.to_owned(),
        queue,
        default_rtt: target.load.default_rtt,
        decay: target.load.decay,
        metrics: target.families.series(&target.labels, queue.failfast),
        rng: ctx.rng(),
        on_unreachable: Box::new(move || reporter.report_unreachable()),
    };
    let updates = target.families.updates(&target.labels);
    let changes = follow(watch).map(move |batch| {
        let batch = batch?;
        if batch.reset {
            updates.reset.incr();
        }
        let changes = batch.changes.into_iter().map(|change| match change {
            Change::Insert(addr, endpoint) => {
                updates.add.incr();
                let weight = endpoint.weight;
                Change::Insert(addr, (new_endpoint.new_service(endpoint), weight))
            }
            Change::Remove(addr) => {
                updates.remove.incr();
                Change::Remove(addr)
            }
        });
        Ok(changes.collect())
    });
    Ok(Balance::new(changes.boxed_local(), params))
}

/// A balancer over one endpoint that never changes.
pub fn new_static<S, Req>(
    ctx: &Context,
    endpoint: SocketAddr,
    service: S,
    target: Target<'_>,
) -> Balance<SocketAddr, S>
where
    S: Service<Req, Error = Failed<Req>> + Availability + 'static,
    Req: 'static,
{
    let queue = ctx.queue(target.queue);
    let params = Params {
        name: endpoint.to_string(),
        queue,
        default_rtt: target.load.default_rtt,
        decay: target.load.decay,
        metrics: target.families.series(&target.labels, queue.failfast),
        rng: ctx.rng(),
        on_unreachable: Box::new(|| {}),
    };
    let only = vec![Change::Insert(endpoint, (service, 1))];
    Balance::new(futures::stream::iter([Ok(only)]), params)
}

/// Changes that came together.
struct Batch {
    changes: Vec<Change<SocketAddr, Arc<Endpoint>>>,
    /// Whether the whole set was replaced.
    reset: bool,
}

type Endpoints = IndexMap<SocketAddr, Arc<Endpoint>>;

/// Turns snapshots into changes, a limited number at a time. The destination is held as long as the stream is.
fn follow(watch: EndpointWatch) -> LocalBoxStream<'static, Result<Batch, Error>> {
    let following = Following {
        watch,
        known: Arc::default(),
        comparison: None,
    };
    unfold(following, |mut following| async {
        let batch = following.next().await;
        Some((batch, following))
    })
    .boxed_local()
}

struct Following {
    watch: EndpointWatch,
    /// The last set, which is shared with discovery.
    known: Arc<Endpoints>,
    /// What leads to the next one.
    comparison: Option<Comparison>,
}

impl Following {
    async fn next(&mut self) -> Result<Batch, Error> {
        let (mut comparison, reset) = match self.comparison.take() {
            Some(comparison) => {
                // Requests of this worker come first: a service for an endpoint takes a while to make.
                tokio::task::yield_now().await;
                (comparison, false)
            }
            None => {
                let set = self.updated().await?;
                let reset = set.is_empty() && !self.known.is_empty();
                (Comparison::new(&self.known, &set.endpoints), reset)
            }
        };
        if comparison.is_done() {
            comparison.forget().await;
            return Ok(Batch {
                changes: Vec::new(),
                reset,
            });
        }
        let changes = comparison.next();
        if comparison.is_done() {
            self.known = comparison.new.clone();
        }
        self.comparison = Some(comparison);
        Ok(Batch { changes, reset })
    }

    async fn updated(&mut self) -> Result<Arc<EndpointSet>, Error> {
        loop {
            match self.watch.changed().await {
                Resolution::Pending => {}
                Resolution::Known(set) => return Ok(set),
                Resolution::Rejected(status) => {
                    let error = Error::new(Reason::DiscoveryRejected).detail(status.to_string());
                    return Err(error);
                }
            }
        }
    }
}

/// What must change to get from one set to the other, bit by bit. Additions come first, so that there is no moment
/// without any endpoint.
struct Comparison {
    old: Arc<Endpoints>,
    new: Arc<Endpoints>,
    /// How many of the new ones, and then of the old ones, were looked at.
    seen: usize,
}

impl Comparison {
    fn new(old: &Arc<Endpoints>, new: &Arc<Endpoints>) -> Self {
        Self {
            old: old.clone(),
            new: new.clone(),
            seen: 0,
        }
    }

    /// The next changes; there may be none before the end.
    fn next(&mut self) -> Vec<Change<SocketAddr, Arc<Endpoint>>> {
        let mut changes = Vec::new();
        for _ in 0..LOOKS_AT_ONCE {
            if changes.len() >= CHANGES_AT_ONCE || self.is_done() {
                break;
            }
            changes.extend(self.look());
        }
        changes
    }

    /// Looks at one endpoint.
    fn look(&mut self) -> Option<Change<SocketAddr, Arc<Endpoint>>> {
        let index = self.seen;
        self.seen += 1;
        if let Some((addr, endpoint)) = self.new.get_index(index) {
            let known = self.old.get(addr);
            let same = |known| Arc::ptr_eq(known, endpoint) || known == endpoint;
            return (!known.is_some_and(same)).then(|| Change::Insert(*addr, endpoint.clone()));
        }
        let (addr, _) = self.old.get_index(index - self.new.len())?;
        (!self.new.contains_key(addr)).then(|| Change::Remove(*addr))
    }

    /// Drops the old set. Often nobody else holds it any more: at once, 10,000 endpoints took 11 ms.
    async fn forget(self) {
        let Some(mut left) = Arc::into_inner(self.old) else {
            return;
        };
        while !left.is_empty() {
            left.truncate(left.len().saturating_sub(DROPS_AT_ONCE));
            tokio::task::yield_now().await;
        }
    }

    fn is_done(&self) -> bool {
        self.seen >= self.new.len() + self.old.len()
    }
}

/// How many endpoints are added before requests get their turn, which takes a tenth of a millisecond. All of 10,000 at
/// once held them up for 67 ms.
const CHANGES_AT_ONCE: usize = 32;

/// How many endpoints are dropped before requests get their turn.
const DROPS_AT_ONCE: usize = 128;

/// How many endpoints are looked at, changed or not, before requests get their turn.
const LOOKS_AT_ONCE: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(endpoints: impl IntoIterator<Item = (u16, u32)>) -> Arc<Endpoints> {
        let endpoint = |(port, weight): (u16, u32)| {
            let addr = SocketAddr::from(([10, 0, 0, 1], port));
            let mut endpoint = Endpoint::new(addr);
            endpoint.weight = weight;
            (addr, Arc::new(endpoint))
        };
        Arc::new(endpoints.into_iter().map(endpoint).collect())
    }

    /// Applies the changes, and returns how many came at once at most.
    fn apply(old: &Arc<Endpoints>, new: &Arc<Endpoints>) -> (Endpoints, usize) {
        let (mut held, mut most) = ((**old).clone(), 0);
        let mut comparison = Comparison::new(old, new);
        while !comparison.is_done() {
            let changes = comparison.next();
            most = most.max(changes.len());
            for change in changes {
                match change {
                    Change::Insert(addr, endpoint) => {
                        assert_ne!(old.get(&addr), Some(&endpoint), "no change for nothing");
                        held.insert(addr, endpoint);
                    }
                    Change::Remove(addr) => assert!(held.swap_remove(&addr).is_some()),
                }
            }
        }
        (held, most)
    }

    #[test]
    fn thousands_of_changes_come_a_few_at_a_time() {
        let old = set((0..5_000).map(|port| (port, 1)));
        let new = set((4_000..9_000).map(|port| (port, 1)));
        let (held, most) = apply(&old, &new);
        assert_eq!((&held, most), (&*new, CHANGES_AT_ONCE));
    }

    proptest! {
        #[test]
        fn applying_the_changes_leads_to_the_new_set(
            old in prop::collection::vec((1u16..20, 0u32..3), 0..20),
            new in prop::collection::vec((1u16..20, 0u32..3), 0..20),
        ) {
            let (old, new) = (set(old), set(new));
            prop_assert_eq!(&apply(&old, &new).0, &*new);
        }
    }
}
