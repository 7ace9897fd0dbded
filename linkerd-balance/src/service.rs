//! The balancer as a tower service.

use crate::{
    Failfast, LoadHandle, Metrics,
    driver::Driver,
    load::Load,
    member::{Member, Ready, Slot},
    p2c,
    queue::{Queue, Waiter},
};
use futures::{Stream, future::LocalBoxFuture};
use indexmap::IndexMap;
use linkerd_proxy_core::{
    Availability, EndpointState, Error, Failed, Reason, Unavailable, http::QueueSettings,
};
use rand::rngs::SmallRng;
use std::{
    cell::{Cell, RefCell},
    fmt::Display,
    hash::Hash,
    rc::Rc,
    task::{Context, Poll, Waker},
    time::Duration,
};
use tokio::{task::JoinHandle, time::Instant};
use tower::discover::Change;
use tower_service::Service;

/// What a balancer is made with.
pub struct Params {
    /// What is balanced, for logs.
    pub name: String,
    /// The most requests that wait, and for how long.
    pub queue: QueueSettings,
    /// What an endpoint is thought to take before it was asked.
    pub default_rtt: Duration,
    /// How fast an estimate is forgotten.
    pub decay: Duration,
    /// The figures.
    pub metrics: Metrics,
    /// The generator of choices.
    pub rng: SmallRng,
    /// Called when a request waits and every endpoint refuses connections: discovery may hold a stale set.
    pub on_unreachable: Box<dyn Fn()>,
}

/// Sends each request to the less loaded of two random endpoints. Its copies share everything.
///
/// Updates come as batches of changes; the first batch, even an empty one, tells that the set is known. Must be made and
/// used within a `LocalSet`.
pub struct Balance<K, S>(Rc<Handle<K, S>>);

/// A response, and the measurement that ends when it is dropped.
#[derive(Debug)]
pub struct Balanced<Rsp> {
    /// The endpoint's response.
    pub response: Rsp,
    /// The measurement.
    pub load: LoadHandle,
}

/// Ends the driver with the last copy of the balancer and the last request that waits.
struct Handle<K, S> {
    shared: Rc<Shared<K, S>>,
    driver: JoinHandle<()>,
}

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
    rng: RefCell<SmallRng>,
    /// Wakes the driver.
    pub(crate) driver: Cell<Option<Waker>>,
    /// Endpoints that were found not ready and that the driver shall poll.
    pub(crate) demoted: RefCell<Vec<Rc<Member<K, S>>>>,
}

impl<K, S> Balance<K, S>
where
    K: Hash + Eq + Clone + Display + 'static,
    S: Availability + 'static,
{
    /// Balances over what `updates` brings. The weight of a new endpoint comes with it.
    pub fn new<Req, D>(updates: D, mut params: Params) -> Self
    where
        D: Stream<Item = Result<Vec<Change<K, (S, u32)>>, Error>> + Unpin + 'static,
        S: Service<Req, Error = Failed<Req>>,
        Req: 'static,
    {
        let rng = std::mem::replace(&mut params.rng, rand::SeedableRng::seed_from_u64(0));
        let shared = Rc::new(Shared {
            failfast: Cell::new(Failfast::new(params.queue.failfast)),
            params,
            slots: RefCell::default(),
            ready: Ready::new(),
            queue: Queue::default(),
            resolved: Cell::new(false),
            terminal: RefCell::default(),
            rng: RefCell::new(rng),
            driver: Cell::default(),
            demoted: RefCell::default(),
        });
        let driver = Driver::<K, S, Req, D>::new(shared.clone(), updates);
        Self(Rc::new(Handle {
            shared,
            driver: tokio::task::spawn_local(driver),
        }))
    }

    /// Sends a request, as [`Service::call`] does, without boxing the future.
    pub async fn send<Req>(&self, request: Req) -> Result<Balanced<S::Response>, Error>
    where
        S: Service<Req, Error = Failed<Req>>,
    {
        dispatch(self.0.clone(), request).await
    }

    /// Why a request would be refused now, if it would.
    pub fn unavailable(&self) -> Option<Unavailable> {
        let shared = &self.0.shared;
        let shut = shared.failfast.get().is_shut() && shared.ready.len() == 0;
        shut.then(|| {
            shared.wanted();
            shared.cause()
        })
    }

    /// The balancer's state, for `/state`.
    pub fn inspect(&self) -> serde_json::Value {
        self.0.shared.inspect()
    }
}

impl<K, S> Clone for Balance<K, S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K, S> Drop for Handle<K, S> {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl<K, S, Req> Service<Req> for Balance<K, S>
where
    K: Hash + Eq + Clone + Display + 'static,
    S: Service<Req, Error = Failed<Req>> + Availability + 'static,
    Req: 'static,
{
    type Response = Balanced<S::Response>;
    type Error = Error;
    type Future = LocalBoxFuture<'static, Result<Self::Response, Error>>;

    /// Always ready: whether to wait is decided for each request, see [`Balance::unavailable`].
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Req) -> Self::Future {
        Box::pin(dispatch(self.0.clone(), request))
    }
}

/// Sends a request to one endpoint after another, until one takes it or the time is up.
async fn dispatch<K, S, Req>(
    handle: Rc<Handle<K, S>>,
    mut request: Req,
) -> Result<Balanced<S::Response>, Error>
where
    K: Hash + Eq + Clone + Display + 'static,
    S: Service<Req, Error = Failed<Req>> + Availability + 'static,
{
    let shared = &handle.shared;
    let arrived = Instant::now();
    let mut now = arrived;
    let mut failed: Option<(Rc<Member<K, S>>, Error)> = None;
    shared.params.metrics.queue_requests.incr();
    loop {
        let avoid = failed.as_ref().map(|(member, _)| member);
        let member = match shared.pick(avoid, now) {
            Some(member) => member,
            None => match shared.wait(now, avoid).await {
                Ok(member) => {
                    now = Instant::now();
                    member
                }
                // What the request met itself tells more than that it waited.
                Err(error) => return Err(failed.map_or(error, give_up)),
            },
        };
        if failed.is_none() {
            let waited = now.saturating_duration_since(arrived);
            shared.params.metrics.queue_latency.observe_duration(waited);
        }
        let load = member.load.clone().start(now);
        let response = member.service.borrow_mut().call(request);
        match response.await {
            Ok(response) => return Ok(Balanced { response, load }),
            Err(failure) => {
                load.failed();
                shared.recheck(&member);
                now = Instant::now();
                let late = now.saturating_duration_since(arrived) > shared.params.queue.failfast;
                match failure.request {
                    Some(_) if late => return Err(give_up((member, failure.error))),
                    Some(returned) => {
                        tracing::debug!(endpoint = %member.key, error = %failure.error, "moving request");
                        shared.params.metrics.moved.incr();
                        request = returned;
                        failed = Some((member, failure.error));
                    }
                    None => return Err(failure.error),
                }
            }
        }
    }
}

/// No other endpoint took what this one returned.
fn give_up<K, S: Availability>((member, error): (Rc<Member<K, S>>, Error)) -> Error {
    member.service.borrow().gave_up(&error);
    error
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
            match member.service.borrow_mut().poll_ready(&mut cx) {
                Poll::Ready(Ok(())) => return Some(member.clone()),
                Poll::Ready(Err(_)) | Poll::Pending => self.demote(&member),
            }
        }
    }

    /// Looks at an endpoint that has just failed: it may not be ready any more.
    fn recheck<Req>(&self, member: &Rc<Member<K, S>>)
    where
        S: Service<Req>,
    {
        let mut cx = Context::from_waker(Waker::noop());
        if !matches!(
            member.service.borrow_mut().poll_ready(&mut cx),
            Poll::Ready(Ok(()))
        ) {
            self.demote(member);
        }
    }

    /// Waits for a ready endpoint, at most until the backend fails fast.
    async fn wait<Req>(
        self: &Rc<Self>,
        now: Instant,
        avoid: Option<&Rc<Member<K, S>>>,
    ) -> Result<Rc<Member<K, S>>, Error>
    where
        S: Service<Req>,
    {
        self.wanted();
        if let Some((reason, detail)) = &*self.terminal.borrow() {
            return Err(Error::new(*reason).detail(detail.clone()));
        }
        if self.failfast.get().is_shut() {
            return Err(Reason::Unavailable(self.cause()).into());
        }
        // The incumbent's queue holds one more, which its worker has in hand.
        if self.queue.len() > self.params.queue.capacity {
            return Err(Reason::QueueFull.into());
        }
        let place = Place::new(self.clone());
        self.update(|failfast| failfast.wait(now));
        self.wake_driver();
        std::future::poll_fn(|cx| {
            if place.waiter.is_expired() {
                return Poll::Ready(Err(match &*self.terminal.borrow() {
                    Some((reason, detail)) => Error::new(*reason).detail(detail.clone()),
                    None => Reason::Failfast(self.cause()).into(),
                }));
            }
            match self.pick(avoid, Instant::now()) {
                Some(member) => Poll::Ready(Ok(member)),
                None => {
                    place.waiter.register(cx);
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Hands an endpoint that is not ready to the driver.
    fn demote(&self, member: &Rc<Member<K, S>>) {
        if self.ready.remove(member) {
            self.demoted.borrow_mut().push(member.clone());
            self.gauge();
            self.wake_driver();
        }
    }

    /// Tells endpoints that back off that they are waited for, and discovery when it is all of them.
    fn wanted(&self) {
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
                EndpointState::BackingOff { .. } => {}
            }
        }
        cause
    }

    pub(crate) fn new_load(&self, weight: u32) -> Rc<Load> {
        let params = &self.params;
        let rtt = crate::PeakEwma::new(params.default_rtt, params.decay, Instant::now());
        Rc::new(Load::new(rtt, weight))
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

    /// Brings the gauges up to date.
    pub(crate) fn gauge(&self) {
        let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let metrics = &self.params.metrics;
        let (all, ready) = (self.slots.borrow().len(), self.ready.len());
        metrics.p2c_endpoints.set(count(all));
        metrics.ready.set(count(ready));
        metrics.pending.set(count(all.saturating_sub(ready)));
    }

    fn inspect(&self) -> serde_json::Value {
        let now = Instant::now();
        let slots = self.slots.borrow();
        let endpoints = slots.values().flat_map(Slot::members).map(|member| {
            let service = member.service.borrow();
            let state = service.state();
            let error = match &state {
                EndpointState::BackingOff { error, .. } => Some(error.to_string()),
                _ => None,
            };
            serde_json::json!({
                "endpoint": member.key.to_string(),
                "weight": member.weight,
                "state": state.name(),
                "last_error": error,
                "retry_in_ms": state.retry_in(now).map(|wait| wait.as_millis() as u64),
                "estimate_ms": member.load.estimate(now) * 1000.0,
                "in_flight": member.load.pending(),
                "connections": service.inspect(),
            })
        });
        serde_json::json!({
            "resolved": self.resolved.get(),
            "failing_fast": self.failfast.get().is_shut(),
            "queue": { "length": self.queue.len(), "limit": self.params.queue.capacity,
                       "failfast_ms": self.params.queue.failfast.as_millis() as u64 },
            "ready": self.ready.len(),
            "endpoints": endpoints.collect::<Vec<_>>(),
        })
    }
}

/// A place in the queue that is given up when the request stops waiting, for whatever reason.
struct Place<K, S>
where
    K: Hash + Eq + Clone + Display + 'static,
    S: Availability + 'static,
{
    shared: Rc<Shared<K, S>>,
    waiter: Rc<Waiter>,
}

impl<K, S> Place<K, S>
where
    K: Hash + Eq + Clone + Display + 'static,
    S: Availability + 'static,
{
    fn new(shared: Rc<Shared<K, S>>) -> Self {
        shared.params.metrics.queue_length.incr();
        let waiter = shared.queue.push();
        Self { shared, waiter }
    }
}

impl<K, S> Drop for Place<K, S>
where
    K: Hash + Eq + Clone + Display + 'static,
    S: Availability + 'static,
{
    fn drop(&mut self) {
        let shared = &self.shared;
        shared.params.metrics.queue_length.decr();
        if shared.queue.remove(&self.waiter) && shared.ready.len() > 0 {
            shared.queue.call_next();
        }
        if shared.queue.len() == 0 {
            shared.update(Failfast::idle);
        }
    }
}
