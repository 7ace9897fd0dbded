//! The endpoints of a balancer: all of them, and those that are ready.

use crate::load::Load;
use futures::future::AbortHandle;
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

/// One endpoint.
pub(crate) struct Member<K, S> {
    pub(crate) key: K,
    pub(crate) weight: u32,
    pub(crate) service: RefCell<S>,
    pub(crate) load: Rc<Load>,
    /// Whether it did not accept connections when it was last ready.
    pub(crate) down: Cell<bool>,
    /// Where it stands in the list of ready ones, if it does.
    pub(crate) ready_at: Cell<Option<u32>>,
    /// Ends the future that waits for it to be ready.
    pub(crate) polling: RefCell<Option<AbortHandle>>,
}

/// What is known of one key. After an update the old service serves until the new one is ready.
pub(crate) struct Slot<K, S> {
    pub(crate) active: Option<Rc<Member<K, S>>>,
    pub(crate) next: Option<Rc<Member<K, S>>>,
}

impl<K, S> Slot<K, S> {
    pub(crate) fn members(&self) -> impl Iterator<Item = &Rc<Member<K, S>>> {
        self.active.iter().chain(&self.next)
    }
}

/// The endpoints that can take a request, in no order.
pub(crate) struct Ready<K, S>(RefCell<Vec<Rc<Member<K, S>>>>);

impl<K, S> Ready<K, S> {
    pub(crate) fn new() -> Self {
        Self(RefCell::new(Vec::new()))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.borrow().len()
    }

    pub(crate) fn insert(&self, member: Rc<Member<K, S>>) {
        let mut ready = self.0.borrow_mut();
        if member.ready_at.get().is_none() {
            member.ready_at.set(Some(place(ready.len())));
            ready.push(member);
        }
    }

    /// Takes an endpoint out. Returns whether it was in.
    pub(crate) fn remove(&self, member: &Member<K, S>) -> bool {
        let Some(index) = member.ready_at.take() else {
            return false;
        };
        let mut ready = self.0.borrow_mut();
        ready.swap_remove(index as usize);
        if let Some(moved) = ready.get(index as usize) {
            moved.ready_at.set(Some(index));
        }
        true
    }

    /// Gives room back that is not needed.
    pub(crate) fn shrink_to(&self, room: usize) {
        self.0.borrow_mut().shrink_to(room);
    }

    /// Picks one, and not `avoid` if there is another.
    pub(crate) fn pick(
        &self,
        avoid: Option<&Rc<Member<K, S>>>,
        pick: impl FnOnce(&[Rc<Member<K, S>>]) -> Option<usize>,
    ) -> Option<Rc<Member<K, S>>> {
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
