//! The balancer as a tower service.

use crate::{
    Failfast, LoadHandle, Metrics,
    driver::Driver,
    member::{Member, Ready},
    queue::Queue,
    shared::Shared,
};
use futures::{Stream, future::LocalBoxFuture};
use linkerd_proxy_core::{Availability, Error, Failed, Unavailable, http::QueueSettings};
use rand::rngs::SmallRng;
use std::{
    cell::{Cell, RefCell},
    fmt::Display,
    hash::Hash,
    rc::Rc,
    task::{Context, Poll},
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
    ///
    /// When an endpoint is ready, the request is given to it before this returns: futures stay small, and a request is
    /// not carried from one to the next (that took a sixth of the instructions of a request).
    pub fn send<Req>(
        &self,
        request: Req,
    ) -> impl Future<Output = Result<Balanced<S::Response>, Error>> + use<K, S, Req>
    where
        S: Service<Req, Error = Failed<Req>>,
    {
        let shared = &self.0.shared;
        let arrived = Instant::now();
        let metrics = &shared.params.metrics;
        metrics.queue_requests.incr();
        let first = match shared.pick(None, arrived) {
            Some(member) => {
                metrics.queue_latency.observe(0);
                Ok(Attempt::new(member, arrived, request))
            }
            None => Err(request),
        };
        finish(self.0.clone(), arrived, first)
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
        Box::pin(self.send(request))
    }
}

/// A request that an endpoint is working on.
struct Attempt<K, S, F> {
    member: Rc<Member<K, S>>,
    load: LoadHandle,
    response: F,
}

impl<K, S, F> Attempt<K, S, F> {
    fn new<Req>(member: Rc<Member<K, S>>, now: Instant, request: Req) -> Self
    where
        S: Service<Req, Future = F>,
    {
        let load = member.load.clone().start(now);
        let response = member.service.borrow_mut().call(request);
        Self {
            member,
            load,
            response,
        }
    }
}

/// Sees a request to its end: it goes to one endpoint after another, until one takes it or the time is up.
async fn finish<K, S, Req>(
    handle: Rc<Handle<K, S>>,
    arrived: Instant,
    first: Result<Attempt<K, S, S::Future>, Req>,
) -> Result<Balanced<S::Response>, Error>
where
    K: Hash + Eq + Clone + Display + 'static,
    S: Service<Req, Error = Failed<Req>> + Availability + 'static,
{
    let shared = &handle.shared;
    let metrics = &shared.params.metrics;
    let mut attempt = match first {
        Ok(attempt) => attempt,
        Err(request) => {
            let member = shared.wait(arrived, None).await?;
            let now = Instant::now();
            let waited = now.saturating_duration_since(arrived);
            metrics.queue_latency.observe_duration(waited);
            Attempt::new(member, now, request)
        }
    };
    loop {
        let failure = match attempt.response.await {
            Ok(response) => {
                let load = attempt.load;
                return Ok(Balanced { response, load });
            }
            Err(failure) => failure,
        };
        let member = attempt.member;
        attempt.load.failed();
        shared.recheck(&member);
        let now = Instant::now();
        let late = now.saturating_duration_since(arrived) > shared.params.queue.failfast;
        let request = match failure.request {
            Some(_) if late => return Err(give_up(&member, failure.error)),
            Some(request) => request,
            None => return Err(failure.error),
        };
        tracing::debug!(endpoint = %member.key, error = %failure.error, "moving request");
        metrics.moved.incr();
        let next = match shared.pick(Some(&member), now) {
            Some(next) => next,
            // What the request met itself tells more than that it waited.
            None => match shared.wait(now, Some(&member)).await {
                Ok(next) => next,
                Err(_) => return Err(give_up(&member, failure.error)),
            },
        };
        attempt = Attempt::new(next, Instant::now(), request);
    }
}

/// No other endpoint took what this one returned.
fn give_up<K, S: Availability>(member: &Member<K, S>, error: Error) -> Error {
    member.service.borrow().gave_up(&error);
    error
}
