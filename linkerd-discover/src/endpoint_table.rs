//! The endpoints of one destination, to which updates are applied. Pure, except that it yields the core to other threads
//! between the endpoints of a large update.

use crate::{endpoints::EndpointSet, source::EndpointSetChange};
use indexmap::IndexMap;
use linkerd_proxy_core::{endpoint::Endpoint, yielding::with_yields};
use std::{collections::HashSet, net::SocketAddr, sync::Arc};
use tokio::time::Instant;

type Endpoints = IndexMap<SocketAddr, Arc<Endpoint>>;

/// The endpoints of a destination, after the latest update.
#[derive(Clone, Debug)]
pub(crate) struct EndpointTable {
    /// Shared with the last snapshot, until the next change.
    endpoints: Arc<Endpoints>,
    exists: Option<bool>,
    /// No addition or reset was received on the present stream: the first one replaces the endpoints of earlier streams.
    fresh_stream: bool,
    max_endpoints: usize,
}

/// The effect of an update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Applied {
    /// The update was applied, even if it changed nothing.
    pub(crate) taken: bool,
    /// The endpoints changed, or whether the service exists.
    pub(crate) changed: bool,
    /// Endpoints that were ignored because the table is full.
    pub(crate) beyond_limit: usize,
}

impl EndpointTable {
    pub(crate) fn new(max_endpoints: usize) -> Self {
        Self {
            endpoints: Arc::default(),
            exists: None,
            fresh_stream: true,
            max_endpoints,
        }
    }

    /// The bound on the number of endpoints.
    pub(crate) fn max_endpoints(&self) -> usize {
        self.max_endpoints
    }

    /// Notes that a new stream was opened.
    pub(crate) fn reopened(&mut self) {
        self.fresh_stream = true;
    }

    /// Applies a change.
    ///
    /// A removal that comes first on a stream is ignored: it refers to endpoints that the stream never added.
    pub(crate) fn apply(&mut self, change: EndpointSetChange) -> Applied {
        let mut applied = match change {
            EndpointSetChange::Remove(_) if self.fresh_stream => return Applied::default(),
            EndpointSetChange::Remove(addrs) => self.remove(&addrs),
            EndpointSetChange::Clear { exists } => {
                let changed = !self.endpoints.is_empty() || self.exists != Some(exists);
                self.endpoints = Arc::default();
                self.exists = Some(exists);
                Applied {
                    changed,
                    ..Applied::default()
                }
            }
            EndpointSetChange::Add(endpoints) => self.add(endpoints),
        };
        self.fresh_stream = false;
        applied.taken = true;
        applied
    }

    /// Whether both tables have the same endpoints.
    pub(crate) fn same_as(&self, other: &Self) -> bool {
        self.endpoints == other.endpoints && self.exists == other.exists
    }

    /// The set for consumers. Endpoints equal to those of `before` keep their `Arc`.
    pub(crate) fn snapshot(
        &self,
        before: Option<&EndpointSet>,
        generation: u64,
        now: Instant,
    ) -> EndpointSet {
        let mut endpoints = self.endpoints.clone();
        // Weights that are all 0 are equal weights.
        if endpoints.values().all(|endpoint| endpoint.weight == 0) {
            for endpoint in Arc::make_mut(&mut endpoints).values_mut() {
                Arc::make_mut(endpoint).weight = 1;
            }
        }
        if let Some(before) = before {
            let same = |endpoint: &Arc<Endpoint>| {
                let same = before.endpoints.get(&endpoint.addr);
                same.filter(|same| *same == endpoint && !Arc::ptr_eq(same, endpoint))
            };
            if endpoints.values().any(|endpoint| same(endpoint).is_some()) {
                for endpoint in Arc::make_mut(&mut endpoints).values_mut() {
                    if let Some(same) = same(endpoint) {
                        *endpoint = same.clone();
                    }
                }
            }
        }
        EndpointSet {
            endpoints,
            exists: self.exists,
            generation,
            received_at: now,
        }
    }

    fn add(&mut self, endpoints: Vec<Endpoint>) -> Applied {
        let before = match self.fresh_stream {
            true => std::mem::take(&mut self.endpoints),
            false => Arc::default(),
        };
        let mut applied = Applied {
            changed: self.exists != Some(true),
            ..Applied::default()
        };
        self.exists = Some(true);
        let table = Arc::make_mut(&mut self.endpoints);
        for endpoint in with_yields(endpoints) {
            let addr = endpoint.addr;
            let current = table.get(&addr).or_else(|| before.get(&addr));
            let endpoint = match current {
                Some(same) if **same == endpoint => same.clone(),
                _ => Arc::new(endpoint),
            };
            if table.len() >= self.max_endpoints && !table.contains_key(&addr) {
                applied.beyond_limit += 1;
                continue;
            }
            let kept = table.insert(addr, endpoint.clone());
            let kept = kept.as_ref().or_else(|| before.get(&addr));
            applied.changed |= !kept.is_some_and(|kept| Arc::ptr_eq(kept, &endpoint));
        }
        applied.changed |= before.keys().any(|addr| !table.contains_key(addr));
        table.shrink_to_fit();
        applied
    }

    fn remove(&mut self, addrs: &[SocketAddr]) -> Applied {
        // In one pass: each single removal would move all entries after it.
        let gone: HashSet<_> = addrs.iter().collect();
        let changed = gone.iter().any(|addr| self.endpoints.contains_key(*addr));
        if changed {
            let table = Arc::make_mut(&mut self.endpoints);
            table.retain(|addr, _| !gone.contains(addr));
            table.shrink_to_fit();
        }
        Applied {
            changed,
            ..Applied::default()
        }
    }
}

#[cfg(test)]
mod tests;
