//! Requests that wait for an endpoint.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
    task::{Context, Waker},
};

/// Waiting requests, in the order of their arrival.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiters: RefCell<VecDeque<Rc<Waiter>>>,
}

/// A place in the queue.
#[derive(Debug, Default)]
pub(crate) struct Waiter {
    waker: RefCell<Option<Waker>>,
    called: Cell<bool>,
    expired: Cell<bool>,
}

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.waiters.borrow().len()
    }

    pub(crate) fn push(&self) -> Rc<Waiter> {
        let waiter = Rc::new(Waiter::default());
        self.waiters.borrow_mut().push_back(waiter.clone());
        waiter
    }

    /// Leaves the queue. `true` if this waiter had been woken, so that the next must be.
    pub(crate) fn remove(&self, waiter: &Rc<Waiter>) -> bool {
        let mut waiters = self.waiters.borrow_mut();
        if let Some(index) = waiters.iter().position(|other| Rc::ptr_eq(other, waiter)) {
            waiters.remove(index);
        }
        waiter.called.get()
    }

    /// Wakes the first request that has not been called yet. A called request wakes the next when it has found an endpoint, so
    /// that one free slot does not wake thousands.
    pub(crate) fn call_next(&self) {
        let waiters = self.waiters.borrow();
        if let Some(waiter) = waiters.iter().find(|waiter| !waiter.called.get()) {
            waiter.called.set(true);
            waiter.wake();
        }
    }

    /// Fails all waiting requests.
    pub(crate) fn expire(&self) {
        for waiter in self.waiters.borrow_mut().drain(..) {
            waiter.expired.set(true);
            waiter.wake();
        }
    }
}

impl Waiter {
    pub(crate) fn is_expired(&self) -> bool {
        self.expired.get()
    }

    /// Waits for the next call.
    pub(crate) fn register(&self, cx: &Context<'_>) {
        self.called.set(false);
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|old| old.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }
}
