//! The state shared by a balancer's copies, its driver and its requests.

use crate::{
    Arrival, Failfast,
    affinity::AffinityKey,
    load::Load,
    member::{Candidate, Ready, Slot},
    p2c,
    params::Params,
    queue::Queue,
};
use indexmap::IndexMap;
use linkerd_proxy_core::{EndpointState, Reason, Unavailable, http::EndpointId};
use rand::rngs::SmallRng;
use std::{
    cell::{Cell, RefCell},
    fmt::Display,
    hash::Hash,
    rc::Rc,
    task::{Context, Poll, Waker},
    time::Duration,
};
use tokio::time::Instant;
use tower_service::Service;

/// The endpoints, the queue, and the failfast state.
pub(crate) struct BalanceState<K, S> {
    pub(crate) params: Params,
    pub(crate) slots: RefCell<IndexMap<K, Slot<K, S>>>,
    pub(crate) ready: Ready<K, S>,
    pub(crate) queue: Queue,
    pub(crate) failfast: Cell<Failfast>,
    /// Whether any batch of updates was received.
    pub(crate) resolved: Cell<bool>,
    /// When the last endpoint was removed, if there is none since.
    pub(crate) emptied: Cell<Option<Instant>>,
    /// The reason why no further update will come, if so.
    pub(crate) terminal: RefCell<Option<(Reason, String)>>,
    pub(crate) rng: RefCell<SmallRng>,
    /// Wakes the driver.
    pub(crate) driver: Cell<Option<Waker>>,
    /// Endpoints that were found not ready, for the driver to poll.
    pub(crate) demoted: RefCell<Vec<Rc<Candidate<K, S>>>>,
    /// Endpoints that a breaker has ejected and that the driver shall demote.
    pub(crate) ejected: RefCell<Vec<Rc<Candidate<K, S>>>>,
}

impl<K, S> BalanceState<K, S>
where
    K: Hash + Eq + Clone + Display + 'static,
    S: 'static,
{
    /// The affinity key of a request, if it has one.
    pub(crate) fn key(&self, request: &impl Arrival) -> Option<AffinityKey> {
        let preferences = self.params.preferences.as_ref()?;
        request.affinity(preferences.affinity.as_ref()?)
    }

    /// Picks a ready endpoint for a request with this key, if it has one.
    pub(crate) fn pick<Req>(
        &self,
        avoid: Option<EndpointId>,
        key: Option<AffinityKey>,
        now: Instant,
    ) -> Option<Rc<Candidate<K, S>>>
    where
        S: Service<Req>,
    {
        loop {
            let candidate = self.ready.pick(avoid, |ready| {
                let rng = &mut *self.rng.borrow_mut();
                if let Some(preferences) = &self.params.preferences {
                    return preferences.pick(ready, key, now, rng);
                }
                let ready = &ready.candidates;
                p2c::pick(ready.len(), rng, |index| ready[index].load.value(now))
            })?;
            // The driver watches an endpoint that turns out not to be ready; this task picks another.
            match is_ready(&candidate) {
                true => return Some(candidate),
                false => self.demote(&candidate),
            }
        }
    }

    /// Polls an endpoint that has just failed. `true` if it is still ready.
    pub(crate) fn recheck<Req>(&self, candidate: &Rc<Candidate<K, S>>) -> bool
    where
        S: Service<Req>,
    {
        if candidate.ready_at.get().is_none() {
            // The driver watches the endpoint already, and must stay the task that the endpoint wakes.
            return false;
        }
        let ready = is_ready(candidate);
        if !ready {
            self.demote(candidate);
        }
        ready
    }

    /// Passes an endpoint that is not ready to the driver.
    pub(crate) fn demote(&self, candidate: &Rc<Candidate<K, S>>) {
        if self.ready.remove(candidate) {
            candidate.down.set(candidate.status.is_down());
            self.demoted.borrow_mut().push(candidate.clone());
            self.gauge();
            self.wake_driver();
        }
    }

    /// Notes that a breaker has ejected an endpoint. The driver demotes it: the breaker speaks while a request begins or ends,
    /// when the lists may be in use.
    pub(crate) fn ejected(&self, candidate: Rc<Candidate<K, S>>) {
        self.ejected.borrow_mut().push(candidate);
        self.wake_driver();
    }

    /// Notifies all endpoints that requests wait and, if all of them back off, discovery.
    pub(crate) fn wanted(&self) {
        let slots = self.slots.borrow();
        let mut candidates = slots.values().flat_map(Slot::candidates).peekable();
        if candidates.peek().is_none() {
            return;
        }
        let mut unreachable = true;
        for candidate in candidates {
            candidate.status.wanted();
            unreachable &= matches!(candidate.status.state(), EndpointState::BackingOff(_));
        }
        if unreachable {
            (self.params.on_unreachable)();
        }
    }

    /// The cause for which no endpoint is ready.
    pub(crate) fn cause(&self) -> Unavailable {
        if !self.resolved.get() {
            return Unavailable::NotResolved;
        }
        let slots = self.slots.borrow();
        let mut candidates = slots.values().flat_map(Slot::candidates).peekable();
        if candidates.peek().is_none() {
            return Unavailable::NoEndpoints;
        }
        let mut cause = Unavailable::Ejected;
        for candidate in candidates {
            match candidate.status.state() {
                EndpointState::StreamLimit => return Unavailable::StreamLimit,
                EndpointState::Connecting | EndpointState::Ready => cause = Unavailable::Connecting,
                EndpointState::BackingOff(_)
                    if matches!(cause, Unavailable::Connecting | Unavailable::Http1Only) => {}
                EndpointState::BackingOff(outage) => {
                    cause = match outage.reason {
                        Reason::EndpointSpeaksHttp1 => Unavailable::Http1Only,
                        _ => Unavailable::Unreachable,
                    };
                }
                EndpointState::Ejected { .. } | EndpointState::Probing => {}
            }
        }
        cause
    }

    /// The time from which requests do not wait for an endpoint, as the set is known to be empty. `None`: they wait.
    pub(crate) fn is_empty_from(&self, now: Instant) -> Option<Instant> {
        let is_empty = self.resolved.get() && self.slots.borrow().is_empty();
        is_empty.then(|| self.emptied.get().map_or(now, |at| at + EMPTY_GRACE))
    }

    pub(crate) fn new_load(&self, weight: u32) -> Rc<Load> {
        Rc::new(Load::new(&self.params.load, weight, Instant::now()))
    }

    /// Applies a change to the failfast state.
    pub(crate) fn update<T>(&self, change: impl FnOnce(&mut Failfast) -> T) -> T {
        let mut failfast = self.failfast.get();
        let result = change(&mut failfast);
        self.failfast.set(failfast);
        result
    }

    pub(crate) fn wake_driver(&self) {
        if let Some(waker) = self.driver.take() {
            waker.wake();
        }
    }

    /// Frees memory when many endpoints have left, or when there are few.
    pub(crate) fn tidy(&self) {
        let mut slots = self.slots.borrow_mut();
        if slots.capacity() > SPARE && slots.len() < slots.capacity() / 4 {
            let room = slots.len() * 2;
            slots.shrink_to(room);
            self.ready.shrink_to(room);
        } else if slots.len() <= FEW {
            slots.shrink_to_fit();
            self.ready.shrink_to(slots.len());
        }
    }

    /// Updates the gauges.
    pub(crate) fn gauge(&self) {
        let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let metrics = &self.params.metrics;
        let (all, ready) = (self.slots.borrow().len(), self.ready.len());
        metrics.p2c_endpoints.set(count(all));
        metrics.ready.set(count(ready));
        metrics.pending.set(count(all.saturating_sub(ready)));
    }
}

/// Whether an endpoint takes a request now.
fn is_ready<K, S, Req>(candidate: &Candidate<K, S>) -> bool
where
    S: Service<Req>,
{
    let mut cx = Context::from_waker(Waker::noop());
    let polled = candidate.service.borrow_mut().poll_ready(&mut cx);
    matches!(polled, Poll::Ready(Ok(()))) && !candidate.status.is_ejected()
}

/// Time after the removal of the last endpoint in which requests wait: its successor may come in the next message.
const EMPTY_GRACE: Duration = Duration::from_millis(100);

/// Capacity for endpoints that is never freed.
const SPARE: usize = 1024;

/// Up to this many endpoints get exactly the memory that they need: a proxy may have a thousand small balancers, and moving
/// so few endpoints with each update takes no time.
const FEW: usize = 32;
