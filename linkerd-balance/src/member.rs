//! The endpoints of a balancer: all of them, and the ready ones.

use crate::{breaker::EndpointBreaker, load::Load, traits::PreferenceTraits};
use futures::future::AbortHandle;
use linkerd_proxy_core::{EndpointStatus, http::EndpointId};
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};
use tokio::time::Instant;

/// An endpoint as given to a balancer.
#[derive(Clone, Debug)]
pub struct Member<S> {
    /// Sends requests to the endpoint.
    pub service: S,
    /// Whether the endpoint can take a request.
    pub status: EndpointStatus,
    /// The share of the load, relative to the others.
    pub weight: u32,
    /// Whether the endpoint is in the zone of this proxy.
    pub is_local: bool,
    /// The circuit breaker, if there is one. The service records outcomes in it.
    pub breaker: Option<Rc<EndpointBreaker>>,
}

impl<S> Member<S> {
    /// An endpoint without a breaker, in another zone or an unknown one.
    pub fn new(service: S, status: EndpointStatus, weight: u32) -> Self {
        Self {
            service,
            status,
            weight,
            is_local: false,
            breaker: None,
        }
    }
}

/// An endpoint, and its place among the others.
pub(crate) struct Candidate<K, S> {
    pub(crate) key: K,
    pub(crate) weight: u32,
    pub(crate) service: RefCell<S>,
    pub(crate) status: EndpointStatus,
    pub(crate) load: Rc<Load>,
    pub(crate) breaker: Option<Rc<EndpointBreaker>>,
    /// Present if the balancer has preferences.
    pub(crate) traits: Option<Box<PreferenceTraits>>,
    /// Whether the endpoint refused connections when it was last removed from the ready list.
    pub(crate) down: Cell<bool>,
    /// The position in the list of ready endpoints, if it is in the list.
    pub(crate) ready_at: Cell<Option<u32>>,
    /// Aborts the future that waits for the endpoint to be ready.
    pub(crate) polling: RefCell<Option<AbortHandle>>,
}

impl<K, S> Candidate<K, S> {
    /// Identifies the endpoint.
    pub(crate) fn id(self: &Rc<Self>) -> EndpointId {
        EndpointId(Rc::as_ptr(self).addr())
    }
}

/// The endpoint of one key. After an update the old service is used until the new one is ready.
pub(crate) struct Slot<K, S> {
    pub(crate) active: Option<Rc<Candidate<K, S>>>,
    pub(crate) next: Option<Rc<Candidate<K, S>>>,
}

impl<K, S> Slot<K, S> {
    pub(crate) fn candidates(&self) -> impl Iterator<Item = &Rc<Candidate<K, S>>> {
        self.active.iter().chain(&self.next)
    }
}

/// The endpoints that can take a request.
pub(crate) struct Ready<K, S>(RefCell<ReadyList<K, S>>);

/// See [`Ready`]. Unordered, except that endpoints of the own zone come first if they are preferred.
pub(crate) struct ReadyList<K, S> {
    pub(crate) candidates: Vec<Rc<Candidate<K, S>>>,
    /// The number of endpoints in the own zone.
    pub(crate) local: usize,
}

impl<K, S> Ready<K, S> {
    pub(crate) fn new() -> Self {
        Self(RefCell::new(ReadyList {
            candidates: Vec::new(),
            local: 0,
        }))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.borrow().candidates.len()
    }

    pub(crate) fn insert(&self, candidate: Rc<Candidate<K, S>>) {
        if candidate.ready_at.get().is_none() {
            self.0.borrow_mut().insert(candidate);
        }
    }

    /// Removes an endpoint. `true` if it was in the list.
    pub(crate) fn remove(&self, candidate: &Candidate<K, S>) -> bool {
        let index = candidate.ready_at.take();
        if let Some(index) = index {
            self.0.borrow_mut().remove(index as usize);
        }
        index.is_some()
    }

    /// Frees memory that is not needed.
    pub(crate) fn shrink_to(&self, room: usize) {
        self.0.borrow_mut().candidates.shrink_to(room);
    }

    /// Picks an endpoint other than `avoid`, if there is another.
    pub(crate) fn pick(
        &self,
        avoid: Option<EndpointId>,
        pick: impl FnOnce(&ReadyList<K, S>) -> Option<usize>,
    ) -> Option<Rc<Candidate<K, S>>> {
        let list = self.0.borrow();
        let index = pick(&list)?;
        let ready = &list.candidates;
        let picked = &ready[index];
        match avoid {
            Some(avoid) if avoid == picked.id() && ready.len() > 1 => {
                Some(ready[(index + 1) % ready.len()].clone())
            }
            _ => Some(picked.clone()),
        }
    }
}

impl<K, S> ReadyList<K, S> {
    fn insert(&mut self, candidate: Rc<Candidate<K, S>>) {
        let is_local = candidate.is_local();
        let last = self.candidates.len();
        candidate.ready_at.set(Some(place(last)));
        self.candidates.push(candidate);
        if is_local {
            self.swap(last, self.local);
            self.local += 1;
        }
    }

    fn remove(&mut self, mut index: usize) {
        if index < self.local {
            self.local -= 1;
            self.swap(index, self.local);
            index = self.local;
        }
        self.candidates.swap_remove(index);
        if let Some(moved) = self.candidates.get(index) {
            moved.ready_at.set(Some(place(index)));
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.candidates.swap(a, b);
        for index in [a, b] {
            // The endpoint that is being removed has no position any more.
            let candidate = &self.candidates[index];
            if candidate.ready_at.get().is_some() {
                candidate.ready_at.set(Some(place(index)));
            }
        }
    }
}

impl<K, S> Candidate<K, S> {
    /// Sets the time at which the endpoint joined other ready ones, if there were any.
    pub(crate) fn joins(&self, joined: Option<Instant>) {
        if let Some(traits) = &self.traits {
            traits.joined.set(joined);
        }
    }

    /// The time at which the endpoint joined others, if it did.
    pub(crate) fn joined(&self) -> Option<Instant> {
        self.traits.as_ref()?.joined.get()
    }

    fn is_local(&self) -> bool {
        self.traits.as_ref().is_some_and(|traits| traits.is_local)
    }
}

/// A position in the list, in few bytes: every endpoint has one.
fn place(index: usize) -> u32 {
    u32::try_from(index).expect("there are less than 4 billion endpoints")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{affinity::AffinityKey, load_settings::LoadSettings};
    use linkerd_proxy_core::endpoint::Capacity;
    use proptest::prelude::*;

    fn candidate(key: usize, is_local: bool) -> Rc<Candidate<usize, ()>> {
        let traits = PreferenceTraits {
            name: AffinityKey::of(&key.to_be_bytes()),
            is_local,
            joined: Cell::new(None),
        };
        Rc::new(Candidate {
            key,
            weight: 1,
            service: RefCell::new(()),
            status: EndpointStatus::new(Capacity::OnDemand),
            load: Rc::new(Load::new(&LoadSettings::default(), 1, Instant::now())),
            breaker: None,
            traits: Some(Box::new(traits)),
            down: Cell::new(false),
            ready_at: Cell::new(None),
            polling: RefCell::default(),
        })
    }

    proptest! {
        /// The list contains the endpoints that were added and not removed, at their positions, those of the own zone first.
        #[test]
        fn the_own_zone_comes_first(locals in prop::collection::vec(any::<bool>(), 1..30), toggles in prop::collection::vec(any::<prop::sample::Index>(), 1..200)) {
            let all: Vec<_> = locals.iter().enumerate().map(|(key, local)| candidate(key, *local)).collect();
            let (ready, mut expected) = (Ready::new(), vec![false; all.len()]);
            for toggle in toggles {
                let key = toggle.index(all.len());
                match expected[key] {
                    false => ready.insert(all[key].clone()),
                    true => prop_assert!(ready.remove(&all[key])),
                }
                expected[key] = !expected[key];
                let list = ready.0.borrow();
                prop_assert_eq!(list.candidates.len(), expected.iter().filter(|ready| **ready).count());
                for (index, candidate) in list.candidates.iter().enumerate() {
                    prop_assert!(expected[candidate.key]);
                    prop_assert_eq!(candidate.ready_at.get(), Some(place(index)));
                    prop_assert_eq!(candidate.is_local(), index < list.local);
                }
            }
        }
    }
}
