//! The endpoints that are held for one destination, and what updates do to them. Pure, but for
//! offering the core to other threads while it is at it.

use crate::{endpoints::EndpointSet, source::EndpointSetChange};
use indexmap::IndexMap;
use linkerd_proxy_core::{endpoint::Endpoint, yielding::with_yields};
use std::{collections::HashSet, net::SocketAddr, sync::Arc};
use tokio::time::Instant;

type Endpoints = IndexMap<SocketAddr, Arc<Endpoint>>;

/// The latest state of a destination.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    /// Shared with the last snapshot, until the next change.
    endpoints: Arc<Endpoints>,
    exists: Option<bool>,
    /// Nothing was said yet on the present stream: what comes first replaces what an earlier stream said.
    fresh_stream: bool,
    max_endpoints: usize,
}

/// What an update did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Applied {
    /// The update was taken, be it that it changed nothing.
    pub(crate) taken: bool,
    /// Something is different now.
    pub(crate) changed: bool,
    /// Endpoints that were left out because the set is full.
    pub(crate) beyond_limit: usize,
}

impl Held {
    pub(crate) fn new(max_endpoints: usize) -> Self {
        Self {
            endpoints: Arc::default(),
            exists: None,
            fresh_stream: true,
            max_endpoints,
        }
    }

    /// The most endpoints that are held.
    pub(crate) fn max_endpoints(&self) -> usize {
        self.max_endpoints
    }

    /// A new stream was opened.
    pub(crate) fn reopened(&mut self) {
        self.fresh_stream = true;
    }

    /// Applies a change.
    ///
    /// A removal before anything else was said on a stream is ignored: it refers to a set that the stream never told.
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

    /// Whether both hold the same endpoints.
    pub(crate) fn same_as(&self, other: &Self) -> bool {
        self.endpoints == other.endpoints && self.exists == other.exists
    }

    /// The set that consumers get to see. Endpoints equal to those of `before` keep their `Arc`.
    pub(crate) fn snapshot(
        &self,
        before: Option<&EndpointSet>,
        generation: u64,
        now: Instant,
    ) -> EndpointSet {
        let mut endpoints = self.endpoints.clone();
        // If nobody should get anything, everybody gets the same.
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
        let held = Arc::make_mut(&mut self.endpoints);
        for endpoint in with_yields(endpoints) {
            let addr = endpoint.addr;
            let current = held.get(&addr).or_else(|| before.get(&addr));
            let endpoint = match current {
                Some(same) if **same == endpoint => same.clone(),
                _ => Arc::new(endpoint),
            };
            if held.len() >= self.max_endpoints && !held.contains_key(&addr) {
                applied.beyond_limit += 1;
                continue;
            }
            let kept = held.insert(addr, endpoint.clone());
            let kept = kept.as_ref().or_else(|| before.get(&addr));
            applied.changed |= !kept.is_some_and(|kept| Arc::ptr_eq(kept, &endpoint));
        }
        applied.changed |= before.keys().any(|addr| !held.contains_key(addr));
        held.shrink_to_fit();
        applied
    }

    fn remove(&mut self, addrs: &[SocketAddr]) -> Applied {
        // In one pass: each removal moves all that comes after it.
        let gone: HashSet<_> = addrs.iter().collect();
        let changed = gone.iter().any(|addr| self.endpoints.contains_key(*addr));
        if changed {
            let held = Arc::make_mut(&mut self.endpoints);
            held.retain(|addr, _| !gone.contains(addr));
            held.shrink_to_fit();
        }
        Applied {
            changed,
            ..Applied::default()
        }
    }
}

#[cfg(test)]
mod tests;
