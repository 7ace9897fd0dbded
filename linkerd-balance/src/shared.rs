//! What a balancer's copies, its driver and its requests share.

use crate::{
    Failfast, PeakEwma,
    load::Load,
    member::{Member, Ready, Slot},
    p2c,
    queue::Queue,
    service::Params,
};
use indexmap::IndexMap;
use linkerd_proxy_core::{Availability, EndpointState, Reason, Unavailable};
use rand::rngs::SmallRng;
use std::{
    cell::{Cell, RefCell},
    fmt::Display,
    hash::Hash,
    rc::Rc,
    task::{Context, Poll, Waker},
};
use tokio::time::Instant;
use tower_service::Service;

/// The endpoints, the queue, and whether requests may wait.
pub(crate) struct Shared<K, S> {
    pub(crate) params: Params,
    pub(crate) slots: RefCell<IndexMap<K, Slot<K, S>>>,
    pub(crate) ready: Ready<K, S>,
    pub(crate) queue: Queue,
    pub(crate) failfast: Cell<Failfast>,
    /// Whether any batch has come.
    pub(crate) resolved: Cell<bool>,
    /// Why no update will come any more.
    pub(crate) terminal: RefCell<Option<(Reason, String)>>,
    pub(crate) rng: RefCell<SmallRng>,
    /// Wakes the driver.
    pub(crate) driver: Cell<Option<Waker>>,
    /// Endpoints that were found not ready and that the driver shall poll.
    pub(crate) demoted: RefCell<Vec<Rc<Member<K, S>>>>,
}

impl<K, S> Shared<K, S>
where
    K: Hash + Eq + Clone + Display + 'static,
    S: Availability + 'static,
{
    /// Picks a ready endpoint.
    pub(crate) fn pick<Req>(
        &self,
        avoid: Option<&Rc<Member<K, S>>>,
        now: Instant,
    ) -> Option<Rc<Member<K, S>>>
    where
        S: Service<Req>,
    {
        loop {
            let member = self.ready.pick(avoid, |ready| {
                p2c::pick(ready.len(), &mut *self.rng.borrow_mut(), |index| {
                    ready[index].load.value(now)
                })
            })?;
            // An endpoint that turns out not to be ready is watched by the driver; this task asks another.
            let mut cx = Context::from_waker(Waker::noop());
            // Not in the head of the match, which would keep it borrowed.
            let polled = member.service.borrow_mut().poll_ready(&mut cx);
            match polled {
                Poll::Ready(Ok(())) => return Some(member.clone()),
                Poll::Ready(Err(_)) | Poll::Pending => self.demote(&member),
            }
        }
    }

    /// Looks at an endpoint that has just failed. Returns whether it is ready still.
    pub(crate) fn recheck<Req>(&self, member: &Rc<Member<K, S>>) -> bool
    where
        S: Service<Req>,
    {
        if member.ready_at.get().is_none() {
            // The driver watches it already, and must stay the one that the endpoint wakes.
            return false;
        }
        let mut cx = Context::from_waker(Waker::noop());
        let ready = member.service.borrow_mut().poll_ready(&mut cx);
        if !matches!(ready, Poll::Ready(Ok(()))) {
            self.demote(member);
            return false;
        }
        true
    }

    /// Hands an endpoint that is not ready to the driver.
    pub(crate) fn demote(&self, member: &Rc<Member<K, S>>) {
        if self.ready.remove(member) {
            let state = member.service.borrow().state();
            member
                .down
                .set(matches!(state, EndpointState::BackingOff { .. }));
            self.demoted.borrow_mut().push(member.clone());
            self.gauge();
            self.wake_driver();
        }
    }

    /// Tells endpoints that back off that they are waited for, and discovery when it is all of them.
    pub(crate) fn wanted(&self) {
        let slots = self.slots.borrow();
        let mut members = slots.values().flat_map(Slot::members).peekable();
        if members.peek().is_none() {
            return;
        }
        let mut unreachable = true;
        for member in members {
            let service = member.service.borrow();
            service.wanted();
            unreachable &= matches!(service.state(), EndpointState::BackingOff { .. });
        }
        if unreachable {
            (self.params.on_unreachable)();
        }
    }

    /// Why no endpoint is ready.
    pub(crate) fn cause(&self) -> Unavailable {
        if !self.resolved.get() {
            return Unavailable::NotResolved;
        }
        let slots = self.slots.borrow();
        let mut members = slots.values().flat_map(Slot::members).peekable();
        if members.peek().is_none() {
            return Unavailable::NoEndpoints;
        }
        let mut cause = Unavailable::Unreachable;
        for member in members {
            match member.service.borrow().state() {
                EndpointState::StreamLimit => return Unavailable::StreamLimit,
                EndpointState::Connecting | EndpointState::Ready => cause = Unavailable::Connecting,
                EndpointState::BackingOff { reason, .. } => {
                    if cause == Unavailable::Unreachable && reason == Reason::EndpointSpeaksHttp1 {
                        cause = Unavailable::Http1Only;
                    }
                }
            }
        }
        cause
    }

    pub(crate) fn new_load(&self, weight: u32) -> Rc<Load> {
        Rc::new(Load::new(self.new_rtt(), weight))
    }

    /// What an endpoint is thought to take before it was asked.
    pub(crate) fn new_rtt(&self) -> PeakEwma {
        PeakEwma::new(self.params.default_rtt, self.params.decay, Instant::now())
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

    /// Gives memory back when many endpoints have left, or when there are few.
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

    /// Brings the gauges up to date.
    pub(crate) fn gauge(&self) {
        let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let metrics = &self.params.metrics;
        let (all, ready) = (self.slots.borrow().len(), self.ready.len());
        metrics.p2c_endpoints.set(count(all));
        metrics.ready.set(count(ready));
        metrics.pending.set(count(all.saturating_sub(ready)));
    }
}

/// Room for endpoints that is not given back.
const SPARE: usize = 1024;

/// So few endpoints get just the room that they need: a proxy may have a thousand balancers of this kind, and moving the
/// endpoints with each update takes no time.
const FEW: usize = 32;
