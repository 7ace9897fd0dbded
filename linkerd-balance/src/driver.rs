//! The balancer's own task: applies updates, polls endpoints that are not ready, and expires waiting requests.

use crate::{
    Failfast,
    member::{Candidate, Member, Slot},
    state::BalanceState,
};
use futures::{
    Stream, StreamExt,
    future::{AbortHandle, Abortable, LocalBoxFuture},
    stream::FuturesUnordered,
};
use linkerd_proxy_core::{Error, Rejected, endpoint::Ejection};
use std::{
    cell::{Cell, RefCell},
    fmt::Display,
    future::poll_fn,
    hash::Hash,
    marker::PhantomData,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
    time::{Duration, SystemTime},
};
use tokio::time::{Instant, Sleep, sleep_until};
use tower::discover::Change;
use tower_service::Service;

/// Runs until the balancer is dropped.
pub(crate) struct Driver<K, S, Req, D> {
    shared: Rc<BalanceState<K, S>>,
    updates: Option<D>,
    pending: FuturesUnordered<Abortable<UntilReady<K, S>>>,
    failfast: Option<Pin<Box<Sleep>>>,
    request: PhantomData<fn(Req)>,
}

type UntilReady<K, S> = LocalBoxFuture<'static, Rc<Candidate<K, S>>>;

impl<K, S, Req, D> Driver<K, S, Req, D> {
    pub(crate) fn new(shared: Rc<BalanceState<K, S>>, updates: D) -> Self {
        Self {
            shared,
            updates: Some(updates),
            pending: FuturesUnordered::new(),
            failfast: None,
            request: PhantomData,
        }
    }
}

impl<K, S, Req, D> Future for Driver<K, S, Req, D>
where
    K: Hash + Eq + Clone + Display + 'static,
    S: Service<Req, Error = Rejected<Req>> + 'static,
    Req: 'static,
    D: Stream<Item = Result<Vec<Change<K, Member<S>>>, Error>> + Unpin,
{
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.shared.driver.set(Some(cx.waker().clone()));
        self.poll_updates(cx);
        self.demote_ejected();
        self.poll_endpoints(cx);
        self.poll_failfast(cx);
        Poll::Pending
    }
}

impl<K, S, Req, D> Driver<K, S, Req, D>
where
    K: Hash + Eq + Clone + Display + 'static,
    S: Service<Req, Error = Rejected<Req>> + 'static,
    Req: 'static,
    D: Stream<Item = Result<Vec<Change<K, Member<S>>>, Error>> + Unpin,
{
    fn poll_updates(&mut self, cx: &mut Context<'_>) {
        while let Some(updates) = &mut self.updates {
            match updates.poll_next_unpin(cx) {
                Poll::Pending => return,
                // No more updates: the known endpoints stay.
                Poll::Ready(None) => self.updates = None,
                Poll::Ready(Some(Ok(changes))) => {
                    self.shared.resolved.set(true);
                    let joined = (self.shared.ready.len() > 0).then(Instant::now);
                    let was_empty = self.shared.slots.borrow().is_empty();
                    for change in changes {
                        self.apply(change, joined, cx);
                    }
                    self.changed(was_empty);
                    self.shared.tidy();
                    self.shared.gauge();
                }
                Poll::Ready(Some(Err(error))) => {
                    tracing::warn!(backend = %self.shared.params.name, %error, "discovery ended");
                    *self.shared.terminal.borrow_mut() = Some((error.reason(), error.to_string()));
                    self.updates = None;
                    self.shared.queue.expire();
                }
            }
        }
    }

    /// Notes whether the set has become empty. When it is no longer, requests may wait for its endpoints.
    fn changed(&self, was_empty: bool) {
        let shared = &self.shared;
        let is_empty = shared.slots.borrow().is_empty();
        match (was_empty, is_empty) {
            (false, true) => shared.emptied.set(Some(Instant::now())),
            (true, false) => {
                shared.emptied.set(None);
                // A wait for the first answer goes on, and its time counts.
                if shared.failfast.get().is_shut() {
                    self.open();
                }
            }
            (true, true) | (false, false) => {}
        }
    }

    /// Ends failfast, if requests were refused.
    fn open(&self) {
        let shared = &self.shared;
        if let Some(elapsed) = shared.update(|failfast| failfast.open(Instant::now())) {
            tracing::info!(backend = %shared.params.name, ?elapsed, "backend is available again");
            shared.params.metrics.gate_open.incr();
            shared.params.metrics.gate_open_time.set(unix_time());
        }
    }

    /// Applies a change. `joined` is the time, if other endpoints were ready before.
    fn apply(
        &mut self,
        change: Change<K, Member<S>>,
        joined: Option<Instant>,
        cx: &mut Context<'_>,
    ) {
        let shared = self.shared.clone();
        match change {
            Change::Insert(key, member) => {
                let preferences = shared.params.preferences.as_ref();
                let traits = preferences.map(|it| Box::new(it.traits(&key, member.is_local)));
                let candidate = Rc::new(Candidate {
                    key: key.clone(),
                    traits,
                    weight: member.weight,
                    service: RefCell::new(member.service),
                    status: member.status,
                    load: shared.new_load(member.weight),
                    breaker: member.breaker,
                    down: Cell::new(false),
                    ready_at: Cell::new(None),
                    polling: RefCell::default(),
                });
                notify_of_ejections(&candidate, &shared);
                let mut slots = shared.slots.borrow_mut();
                let slot = slots.entry(key).or_insert(Slot {
                    active: None,
                    next: None,
                });
                candidate.joins(match slot.candidates().next() {
                    None => joined,
                    Some(known) => known.joined(),
                });
                if let Some(superseded) = slot.next.replace(candidate.clone()) {
                    self.forget(&superseded);
                }
                drop(slots);
                // Most are ready at once, and need no future to wait.
                let polled = candidate.service.borrow_mut().poll_ready(cx);
                match polled {
                    Poll::Ready(Ok(())) => self.promote(candidate),
                    Poll::Ready(Err(_)) | Poll::Pending => self.watch(candidate),
                }
            }
            Change::Remove(key) => {
                let slot = shared.slots.borrow_mut().swap_remove(&key);
                if let Some(slot) = slot {
                    slot.candidates()
                        .for_each(|candidate| self.forget(candidate));
                }
            }
        }
    }

    /// Takes ejected endpoints out of the choice, before a request meets them: metrics and `/state` count the others as ready.
    fn demote_ejected(&self) {
        let ejected = self.shared.ejected.take();
        for candidate in ejected.iter().filter(|it| it.status.is_ejected()) {
            self.shared.demote(candidate);
        }
    }

    /// Polls an endpoint until it is ready, and not ejected.
    fn watch(&mut self, candidate: Rc<Candidate<K, S>>) {
        let (handle, registration) = AbortHandle::new_pair();
        if let Some(old) = candidate.polling.borrow_mut().replace(handle) {
            old.abort();
        }
        let until_ready: UntilReady<K, S> = Box::pin(async move {
            let mut readmission = None;
            poll_fn(|cx| poll_candidate(&candidate, &mut readmission, cx)).await;
            candidate
        });
        self.pending.push(Abortable::new(until_ready, registration));
    }

    /// Stops sending to an endpoint. Requests in flight go on.
    fn forget(&self, candidate: &Rc<Candidate<K, S>>) {
        self.shared.ready.remove(candidate);
        if let Some(polling) = candidate.polling.borrow_mut().take() {
            polling.abort();
        }
    }

    fn poll_endpoints(&mut self, cx: &mut Context<'_>) {
        loop {
            let demoted = self.shared.demoted.take();
            for candidate in demoted {
                if self.is_current(&candidate) {
                    self.watch(candidate);
                }
            }
            match self.pending.poll_next_unpin(cx) {
                Poll::Ready(Some(Ok(candidate))) => self.promote(candidate),
                Poll::Ready(Some(Err(_aborted))) => {}
                Poll::Ready(None) | Poll::Pending => break,
            }
        }
    }

    fn is_current(&self, candidate: &Rc<Candidate<K, S>>) -> bool {
        let slots = self.shared.slots.borrow();
        slots
            .get(&candidate.key)
            .is_some_and(|slot| slot.candidates().any(|other| Rc::ptr_eq(other, candidate)))
    }

    fn promote(&mut self, candidate: Rc<Candidate<K, S>>) {
        let shared = &self.shared;
        let mut slots = shared.slots.borrow_mut();
        let Some(slot) = slots.get_mut(&candidate.key) else {
            return;
        };
        if slot
            .next
            .as_ref()
            .is_some_and(|next| Rc::ptr_eq(next, &candidate))
        {
            let replaced = std::mem::replace(&mut slot.active, slot.next.take());
            if let Some(replaced) = replaced {
                self.forget(&replaced);
            }
        }
        drop(slots);
        *candidate.polling.borrow_mut() = None;
        if candidate.down.take() {
            let now = Instant::now();
            candidate.load.reset(&shared.params.load, now);
            candidate.joins((shared.ready.len() > 0).then_some(now));
        }
        shared.ready.insert(candidate);
        shared.gauge();
        self.open();
        shared.queue.call_next();
    }

    fn poll_failfast(&mut self, cx: &mut Context<'_>) {
        let shared = &self.shared;
        if shared.ready.len() == 0 && shared.queue.len() > 0 {
            // An endpoint became ready and stopped the clock, but is gone before all waiting requests were served.
            shared.update(|failfast| failfast.wait(Instant::now()));
        }
        let Some(deadline) = shared.failfast.get().deadline() else {
            self.failfast = None;
            return;
        };
        let now = Instant::now();
        let deadline = match shared.is_empty_from(now) {
            // Not by the timer, which rounds up to a millisecond.
            Some(empty) if empty <= now => return self.enter_failfast(Failfast::give_up),
            Some(empty) => deadline.min(empty),
            None => deadline,
        };
        match &mut self.failfast {
            Some(sleep) if sleep.deadline() == deadline => {}
            Some(sleep) => sleep.as_mut().reset(deadline),
            none => *none = Some(Box::pin(tokio::time::sleep_until(deadline))),
        }
        let Some(sleep) = &mut self.failfast else {
            return;
        };
        if sleep.as_mut().poll(cx).is_ready() {
            self.enter_failfast(match shared.is_empty_from(now) {
                Some(_) => Failfast::give_up,
                None => Failfast::expire,
            });
        }
    }

    /// Fails the waiting requests, if the change of the state says so.
    fn enter_failfast(&self, change: impl FnOnce(&mut Failfast, Instant) -> Option<Duration>) {
        let shared = &self.shared;
        if let Some(waited) = shared.update(|failfast| change(failfast, Instant::now())) {
            tracing::warn!(
                backend = %shared.params.name,
                ?waited,
                cause = ?shared.cause(),
                "entering failfast"
            );
            shared.params.metrics.gate_shut.incr();
            shared.params.metrics.gate_shut_time.set(unix_time());
            shared.queue.expire();
        }
    }
}

/// Has the breaker of an endpoint, if it has one, wake the driver when it ejects the endpoint.
fn notify_of_ejections<K, S>(candidate: &Rc<Candidate<K, S>>, shared: &Rc<BalanceState<K, S>>)
where
    K: Hash + Eq + Clone + Display + 'static,
    S: 'static,
{
    let Some(breaker) = &candidate.breaker else {
        return;
    };
    let (candidate, shared) = (Rc::downgrade(candidate), Rc::downgrade(shared));
    breaker.on_ejection(move || {
        if let (Some(candidate), Some(shared)) = (candidate.upgrade(), shared.upgrade()) {
            shared.ejected(candidate);
        }
    });
}

/// Polls an endpoint. `readmission` runs while the endpoint is ejected.
fn poll_candidate<K, S, Req>(
    candidate: &Candidate<K, S>,
    readmission: &mut Option<Pin<Box<Sleep>>>,
    cx: &mut Context<'_>,
) -> Poll<()>
where
    S: Service<Req>,
{
    match candidate.status.ejection() {
        None => {}
        Some(Ejection::Until(until)) => {
            candidate.status.register(cx);
            let sleep = readmission.insert(Box::pin(sleep_until(until)));
            ready!(sleep.as_mut().poll(cx));
        }
        Some(Ejection::Probing) => {
            candidate.status.register(cx);
            return Poll::Pending;
        }
    }
    match candidate.service.borrow_mut().poll_ready(cx) {
        Poll::Ready(Ok(())) => Poll::Ready(()),
        Poll::Ready(Err(_)) | Poll::Pending => Poll::Pending,
    }
}

/// Seconds since the epoch.
fn unix_time() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}

#[cfg(test)]
mod tests;
