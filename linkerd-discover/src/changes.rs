//! The changes of a destination's endpoints, as a stream for a balancer.
//!
//! Snapshots are compared on the thread that consumes them, which also serves requests: a batch takes a tenth of a
//! millisecond, and requests are served between two batches.

use crate::{
    discovery::EndpointWatch,
    endpoints::{EndpointSet, Resolution},
};
use futures::stream::{Stream, unfold};
use indexmap::IndexMap;
use linkerd_proxy_core::{endpoint::Endpoint, subscription::Status};
use std::{net::SocketAddr, sync::Arc};
use tower::discover::Change;

/// An endpoint that was added or changed, or the address of a removed one.
pub type EndpointChange = Change<SocketAddr, Arc<Endpoint>>;

/// Changes to be applied together.
#[derive(Debug)]
pub struct EndpointChanges {
    /// The changes; there may be none.
    pub changes: Vec<EndpointChange>,
    /// Whether all endpoints were removed by the update that begins here.
    pub reset: bool,
}

type Endpoints = IndexMap<SocketAddr, Arc<Endpoint>>;

impl EndpointWatch {
    /// The changes from no endpoints to each snapshot, in batches of bounded size.
    ///
    /// The stream keeps the destination from eviction. It fails when the control plane refuses the destination for good.
    pub fn into_changes(self) -> impl Stream<Item = Result<EndpointChanges, Arc<Status>>> {
        let source = ChangeSource {
            watch: self,
            known: Arc::default(),
            comparison: None,
        };
        unfold(source, |mut source| async {
            let batch = source.next().await;
            Some((batch, source))
        })
    }
}

struct ChangeSource {
    watch: EndpointWatch,
    /// The last set, which is shared with discovery.
    known: Arc<Endpoints>,
    /// The comparison with the next set.
    comparison: Option<Comparison>,
}

impl ChangeSource {
    async fn next(&mut self) -> Result<EndpointChanges, Arc<Status>> {
        let (mut comparison, reset) = match self.comparison.take() {
            Some(comparison) => {
                // Requests of this worker come first: making a service for an endpoint takes a while.
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
            comparison.drop_old().await;
            return Ok(EndpointChanges {
                changes: Vec::new(),
                reset,
            });
        }
        let changes = comparison.next();
        if comparison.is_done() {
            self.known = comparison.new.clone();
        }
        self.comparison = Some(comparison);
        Ok(EndpointChanges { changes, reset })
    }

    async fn updated(&mut self) -> Result<Arc<EndpointSet>, Arc<Status>> {
        loop {
            match self.watch.changed().await {
                Resolution::Pending => {}
                Resolution::Known(set) => return Ok(set),
                Resolution::Rejected(status) => return Err(status),
            }
        }
    }
}

/// The changes from one set to another, in batches. Additions come first, so that there is always an endpoint.
struct Comparison {
    old: Arc<Endpoints>,
    new: Arc<Endpoints>,
    /// The number of endpoints compared: first the new ones, then the old ones.
    compared: usize,
}

impl Comparison {
    fn new(old: &Arc<Endpoints>, new: &Arc<Endpoints>) -> Self {
        Self {
            old: old.clone(),
            new: new.clone(),
            compared: 0,
        }
    }

    /// The next changes; there may be none before the end.
    fn next(&mut self) -> Vec<EndpointChange> {
        let mut changes = Vec::new();
        for _ in 0..COMPARED_AT_ONCE {
            if changes.len() >= CHANGES_AT_ONCE || self.is_done() {
                break;
            }
            changes.extend(self.compare_one());
        }
        changes
    }

    fn compare_one(&mut self) -> Option<EndpointChange> {
        let index = self.compared;
        self.compared += 1;
        if let Some((addr, endpoint)) = self.new.get_index(index) {
            let known = self.old.get(addr);
            let same = |known| Arc::ptr_eq(known, endpoint) || known == endpoint;
            return (!known.is_some_and(same)).then(|| Change::Insert(*addr, endpoint.clone()));
        }
        let (addr, _) = self.old.get_index(index - self.new.len())?;
        (!self.new.contains_key(addr)).then(|| Change::Remove(*addr))
    }

    /// Drops the old set in pieces. This is often its last reference: dropping 10,000 endpoints at once took 11 ms.
    async fn drop_old(self) {
        let Some(mut left) = Arc::into_inner(self.old) else {
            return;
        };
        while !left.is_empty() {
            left.truncate(left.len().saturating_sub(DROPS_AT_ONCE));
            tokio::task::yield_now().await;
        }
    }

    fn is_done(&self) -> bool {
        self.compared >= self.new.len() + self.old.len()
    }
}

/// The number of endpoints added before requests are served, which takes a tenth of a millisecond. Adding 10,000 at once
/// delayed requests by 67 ms.
const CHANGES_AT_ONCE: usize = 32;

/// The number of endpoints dropped before requests are served.
const DROPS_AT_ONCE: usize = 128;

/// The number of endpoints compared, changed or not, before requests are served.
const COMPARED_AT_ONCE: usize = 1024;

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

    /// Applies the changes, and returns the size of the largest batch.
    fn apply(old: &Arc<Endpoints>, new: &Arc<Endpoints>) -> (Endpoints, usize) {
        let (mut applied, mut most) = ((**old).clone(), 0);
        let mut comparison = Comparison::new(old, new);
        while !comparison.is_done() {
            let changes = comparison.next();
            most = most.max(changes.len());
            for change in changes {
                match change {
                    Change::Insert(addr, endpoint) => {
                        assert_ne!(old.get(&addr), Some(&endpoint), "no change for nothing");
                        applied.insert(addr, endpoint);
                    }
                    Change::Remove(addr) => assert!(applied.swap_remove(&addr).is_some()),
                }
            }
        }
        (applied, most)
    }

    #[test]
    fn thousands_of_changes_come_a_few_at_a_time() {
        let old = set((0..5_000).map(|port| (port, 1)));
        let new = set((4_000..9_000).map(|port| (port, 1)));
        let (applied, most) = apply(&old, &new);
        assert_eq!((&applied, most), (&*new, CHANGES_AT_ONCE));
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
