//! Stage 6: the endpoints of a destination, as changes for a balancer.

use super::context::Context;
use crate::metrics::Balancer;
use futures::{
    StreamExt,
    stream::{LocalBoxStream, unfold},
};
use indexmap::IndexMap;
use linkerd_balance::{Balance, Params};
use linkerd_discover::{EndpointSet, EndpointWatch, Resolution};
use linkerd_profiles::{Endpoint, PeakEwma};
use linkerd_proxy_core::{
    Availability, Error, Failed, NewService, Reason, http::QueueSettings, metrics::Labels,
};
use std::{net::SocketAddr, sync::Arc, vec};
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
    pub families: &'a Balancer,
    /// The labels of its series.
    pub labels: Labels,
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
        known: None,
        rest: Vec::new().into_iter(),
    };
    unfold(following, |mut following| async {
        let batch = following.next().await;
        Some((batch, following))
    })
    .boxed_local()
}

struct Following {
    watch: EndpointWatch,
    /// The last set; its map is shared with discovery.
    known: Option<Arc<EndpointSet>>,
    /// Changes that are still to be told.
    rest: vec::IntoIter<Change<SocketAddr, Arc<Endpoint>>>,
}

impl Following {
    async fn next(&mut self) -> Result<Batch, Error> {
        let mut reset = false;
        if self.rest.len() == 0 {
            let set = self.updated().await?;
            let known = self.known.as_ref().filter(|known| !known.is_empty());
            reset = set.is_empty() && known.is_some();
            let none = Endpoints::new();
            let known = known.map_or(&none, |known| &known.endpoints);
            self.rest = diff(known, &set.endpoints).into_iter();
            self.known = Some(set);
        } else {
            // Requests of this worker come first: a service for an endpoint takes a while to make.
            tokio::task::yield_now().await;
        }
        let changes = self.rest.by_ref().take(CHANGES_AT_ONCE).collect();
        if self.rest.len() == 0 {
            // Thousands of changes leave a list that the next ones do not need.
            self.rest = Vec::new().into_iter();
        }
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

/// How many endpoints are added before requests get their turn. All of 10,000 at once held them up for 67 ms.
const CHANGES_AT_ONCE: usize = 128;

/// What must change to get from one set to the other. Additions come first, so that there is no moment without any.
fn diff(old: &Endpoints, new: &Endpoints) -> Vec<Change<SocketAddr, Arc<Endpoint>>> {
    let changed = |(addr, endpoint): &(&SocketAddr, &Arc<Endpoint>)| {
        !old.get(*addr)
            .is_some_and(|known| Arc::ptr_eq(known, endpoint) || known == *endpoint)
    };
    let added = new.iter().filter(changed);
    let removed = old.keys().filter(|addr| !new.contains_key(*addr));
    added
        .map(|(addr, endpoint)| Change::Insert(*addr, endpoint.clone()))
        .chain(removed.map(|addr| Change::Remove(*addr)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(endpoints: &[(u16, u32)]) -> Endpoints {
        let endpoint = |(port, weight): &(u16, u32)| {
            let addr = SocketAddr::from(([10, 0, 0, 1], *port));
            let mut endpoint = Endpoint::new(addr);
            endpoint.weight = *weight;
            (addr, Arc::new(endpoint))
        };
        endpoints.iter().map(endpoint).collect()
    }

    proptest! {
        #[test]
        fn applying_the_changes_leads_to_the_new_set(
            old in prop::collection::vec((1u16..20, 0u32..3), 0..20),
            new in prop::collection::vec((1u16..20, 0u32..3), 0..20),
        ) {
            let (old, new) = (set(&old), set(&new));
            let mut held = old.clone();
            for change in diff(&old, &new) {
                match change {
                    Change::Insert(addr, endpoint) => {
                        prop_assert_ne!(old.get(&addr), Some(&endpoint), "no change for nothing");
                        held.insert(addr, endpoint);
                    }
                    Change::Remove(addr) => {
                        prop_assert!(held.swap_remove(&addr).is_some());
                    }
                }
            }
            prop_assert_eq!(held, new);
        }
    }
}
