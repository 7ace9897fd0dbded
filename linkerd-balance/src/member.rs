//! The endpoints of a balancer: all of them, and those that are ready.

use crate::{breaker::EndpointBreaker, load::Load};
use futures::future::AbortHandle;
use linkerd_proxy_core::EndpointStatus;
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

/// An endpoint as a balancer gets it.
#[derive(Clone, Debug)]
pub struct Member<S> {
    /// Sends requests to the endpoint.
    pub service: S,
    /// Tells whether it can take one.
    pub status: EndpointStatus,
    /// Its share of the load, relative to the others.
    pub weight: u32,
    /// Its circuit breaker, if it has one. The service feeds it.
    pub breaker: Option<Rc<EndpointBreaker>>,
}

impl<S> Member<S> {
    /// An endpoint without a breaker.
    pub fn new(service: S, status: EndpointStatus, weight: u32) -> Self {
        Self {
            service,
            status,
            weight,
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
    /// Whether it did not accept connections when it was last ready.
    pub(crate) down: Cell<bool>,
    /// Where it stands in the list of ready ones, if it does.
    pub(crate) ready_at: Cell<Option<u32>>,
    /// Ends the future that waits for it to be ready.
    pub(crate) polling: RefCell<Option<AbortHandle>>,
}

/// The endpoint of one key. After an update the old service serves until the new one is ready.
pub(crate) struct Slot<K, S> {
    pub(crate) active: Option<Rc<Candidate<K, S>>>,
    pub(crate) next: Option<Rc<Candidate<K, S>>>,
}

impl<K, S> Slot<K, S> {
    pub(crate) fn candidates(&self) -> impl Iterator<Item = &Rc<Candidate<K, S>>> {
        self.active.iter().chain(&self.next)
    }
}

/// The endpoints that can take a request, in no order.
pub(crate) struct Ready<K, S>(RefCell<Vec<Rc<Candidate<K, S>>>>);

impl<K, S> Ready<K, S> {
    pub(crate) fn new() -> Self {
        Self(RefCell::new(Vec::new()))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.borrow().len()
    }

    pub(crate) fn insert(&self, candidate: Rc<Candidate<K, S>>) {
        let mut ready = self.0.borrow_mut();
        if candidate.ready_at.get().is_none() {
            candidate.ready_at.set(Some(place(ready.len())));
            ready.push(candidate);
        }
    }

    /// Removes an endpoint. `true` if it was in the list.
    pub(crate) fn remove(&self, candidate: &Candidate<K, S>) -> bool {
        let Some(index) = candidate.ready_at.take() else {
            return false;
        };
        let mut ready = self.0.borrow_mut();
        ready.swap_remove(index as usize);
        if let Some(moved) = ready.get(index as usize) {
            moved.ready_at.set(Some(index));
        }
        true
    }

    /// Frees memory that is not needed.
    pub(crate) fn shrink_to(&self, room: usize) {
        self.0.borrow_mut().shrink_to(room);
    }

    /// Picks an endpoint, and not `avoid` if there is another.
    pub(crate) fn pick(
        &self,
        avoid: Option<&Rc<Candidate<K, S>>>,
        pick: impl FnOnce(&[Rc<Candidate<K, S>>]) -> Option<usize>,
    ) -> Option<Rc<Candidate<K, S>>> {
        let ready = self.0.borrow();
        let index = pick(&ready)?;
        let picked = &ready[index];
        match avoid {
            Some(avoid) if Rc::ptr_eq(avoid, picked) && ready.len() > 1 => {
                Some(ready[(index + 1) % ready.len()].clone())
            }
            _ => Some(picked.clone()),
        }
    }
}

/// A place in the list, in few bytes: every endpoint has one.
fn place(index: usize) -> u32 {
    u32::try_from(index).expect("there are less than 4 billion endpoints")
}
