//! The endpoints that are held for one destination, and what updates do to them. Pure.

use crate::{convert::Change, endpoints::EndpointSet};
use indexmap::IndexMap;
use linkerd_proxy_core::endpoint::Endpoint;
use std::{net::SocketAddr, sync::Arc};
use tokio::time::Instant;

/// The latest state of a destination.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    endpoints: IndexMap<SocketAddr, Arc<Endpoint>>,
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
            endpoints: IndexMap::new(),
            exists: None,
            fresh_stream: true,
            max_endpoints,
        }
    }

    /// A new stream was opened.
    pub(crate) fn reopened(&mut self) {
        self.fresh_stream = true;
    }

    /// Applies a change.
    ///
    /// A removal before anything else was said on a stream is ignored: it refers to a set that the stream never told.
    pub(crate) fn apply(&mut self, change: Change) -> Applied {
        let mut applied = match change {
            Change::Remove(_) if self.fresh_stream => return Applied::default(),
            Change::Remove(addrs) => self.remove(&addrs),
            Change::Clear { exists } => {
                let changed = !self.endpoints.is_empty() || self.exists != Some(exists);
                self.endpoints.clear();
                self.exists = Some(exists);
                Applied {
                    changed,
                    ..Applied::default()
                }
            }
            Change::Add(endpoints) => self.add(endpoints),
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
        let all_zero = endpoints.values().all(|endpoint| endpoint.weight == 0);
        for endpoint in endpoints.values_mut() {
            if all_zero {
                Arc::make_mut(endpoint).weight = 1;
            }
            let same = before.and_then(|before| before.endpoints.get(&endpoint.addr));
            if let Some(same) = same.filter(|same| *same == endpoint) {
                *endpoint = same.clone();
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
        let before = if self.fresh_stream {
            std::mem::take(&mut self.endpoints)
        } else {
            IndexMap::new()
        };
        let mut applied = Applied {
            changed: self.exists != Some(true),
            ..Applied::default()
        };
        self.exists = Some(true);
        for endpoint in endpoints {
            let addr = endpoint.addr;
            let current = self.endpoints.get(&addr).or_else(|| before.get(&addr));
            let endpoint = match current {
                Some(same) if **same == endpoint => same.clone(),
                _ => Arc::new(endpoint),
            };
            if self.endpoints.len() >= self.max_endpoints && !self.endpoints.contains_key(&addr) {
                applied.beyond_limit += 1;
                continue;
            }
            let kept = self.endpoints.insert(addr, endpoint.clone());
            let kept = kept.as_ref().or_else(|| before.get(&addr));
            applied.changed |= !kept.is_some_and(|kept| Arc::ptr_eq(kept, &endpoint));
        }
        applied.changed |= before.keys().any(|addr| !self.endpoints.contains_key(addr));
        applied
    }

    fn remove(&mut self, addrs: &[SocketAddr]) -> Applied {
        let mut changed = false;
        for addr in addrs {
            changed |= self.endpoints.shift_remove(addr).is_some();
        }
        Applied {
            changed,
            ..Applied::default()
        }
    }
}

#[cfg(test)]
mod tests;
