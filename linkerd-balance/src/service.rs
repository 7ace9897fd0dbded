//! The balancer as a tower service.

use crate::{
    Failfast, LoadHandle, Metrics,
    driver::Driver,
    member::{Member, Ready},
    queue::Queue,
    shared::Shared,
};
use futures::{Stream, future::LocalBoxFuture};
use linkerd_proxy_core::{
    Availability, Error, Failed, Unavailable, http::QueueSettings, reason::Origin,
};
use pin_project_lite::pin_project;
use rand::rngs::SmallRng;
use std::{
    cell::{Cell, RefCell},
    fmt::Display,
    hash::Hash,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
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
/// used where `spawn_local` works.
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
    /// not carried from one to the next (that took a sixth of the instructions of a request). `arrived` is now, which the
    /// caller has read from the clock already.
    pub fn send<Req>(&self, request: Req, arrived: Instant) -> Sending<K, S, Req>
    where
        S: Service<Req, Error = Failed<Req>>,
        Req: 'static,
    {
        let shared = &self.0.shared;
        let metrics = &shared.params.metrics;
        metrics.queue_requests.incr();
        match shared.pick(None, arrived) {
            Some(member) => {
                metrics.queue_latency.observe(0);
                Sending::trying(self.0.clone(), arrived, member, request)
            }
            None => Sending::waiting(waits(self.0.clone(), arrived, request)),
        }
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
        Box::pin(self.send(request, Instant::now()))
    }
}

/// A request that an endpoint is working on.
struct Attempt<K, S> {
    handle: Rc<Handle<K, S>>,
    arrived: Instant,
    member: Rc<Member<K, S>>,
    load: LoadHandle,
}

impl<K, S> Attempt<K, S> {
    fn new<Req>(
        handle: Rc<Handle<K, S>>,
        arrived: Instant,
        member: Rc<Member<K, S>>,
        now: Instant,
        request: Req,
    ) -> (Self, S::Future)
    where
        S: Service<Req>,
    {
        let load = member.load.clone().start(now);
        let response = member.service.borrow_mut().call(request);
        let attempt = Self {
            handle,
            arrived,
            member,
            load,
        };
        (attempt, response)
    }
}

pin_project! {
    /// The future of [`Balance::send`].
    ///
    /// It is small: an async block would hold the endpoint's future twice, and so would each block around it.
    pub struct Sending<K, S, Req>
    where
        S: Service<Req>,
    {
        #[pin]
        response: Option<S::Future>,
        attempt: Option<Attempt<K, S>>,
        // What becomes of a request that waits, or that its first endpoint did not take.
        rest: Option<Rest<S::Response>>,
    }
}

type Rest<Rsp> = LocalBoxFuture<'static, Result<Balanced<Rsp>, Error>>;

impl<K, S, Req> Sending<K, S, Req>
where
    S: Service<Req>,
{
    fn trying(
        handle: Rc<Handle<K, S>>,
        arrived: Instant,
        member: Rc<Member<K, S>>,
        request: Req,
    ) -> Self {
        let (attempt, response) = Attempt::new(handle, arrived, member, arrived, request);
        Self {
            response: Some(response),
            attempt: Some(attempt),
            rest: None,
        }
    }

    fn waiting(rest: impl Future<Output = Result<Balanced<S::Response>, Error>> + 'static) -> Self {
        Self {
            response: None,
            attempt: None,
            rest: Some(Box::pin(rest)),
        }
    }
}

impl<K, S, Req> Future for Sending<K, S, Req>
where
    K: Hash + Eq + Clone + Display + 'static,
    S: Service<Req, Error = Failed<Req>> + Availability + 'static,
    Req: 'static,
{
    type Output = Result<Balanced<S::Response>, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let Some(response) = this.response.as_mut().as_pin_mut() {
            let result = ready!(response.poll(cx));
            this.response.set(None);
            let attempt = this.attempt.take().expect("an attempt has one response");
            match result {
                Ok(response) => {
                    let load = attempt.load;
                    return Poll::Ready(Ok(Balanced { response, load }));
                }
                Err(failure) => *this.rest = Some(Box::pin(elsewhere(attempt, failure))),
            }
        }
        let rest = this.rest.as_mut().expect("there is a response or a rest");
        rest.as_mut().poll(cx)
    }
}

/// A request that finds no endpoint ready.
async fn waits<K, S, Req>(
    handle: Rc<Handle<K, S>>,
    arrived: Instant,
    request: Req,
) -> Result<Balanced<S::Response>, Error>
where
    K: Hash + Eq + Clone + Display + 'static,
    S: Service<Req, Error = Failed<Req>> + Availability + 'static,
    Req: 'static,
{
    let shared = &handle.shared;
    let member = shared.wait(arrived, None).await?;
    let now = Instant::now();
    let waited = now.saturating_duration_since(arrived);
    shared.params.metrics.queue_latency.observe_duration(waited);
    let (attempt, response) = Attempt::new(handle, arrived, member, now, request);
    match response.await {
        Ok(response) => {
            let load = attempt.load;
            Ok(Balanced { response, load })
        }
        Err(failure) => elsewhere(attempt, failure).await,
    }
}

/// A request that its endpoint did not take: it goes to one after another, until one takes it or the time is up.
async fn elsewhere<K, S, Req>(
    mut attempt: Attempt<K, S>,
    mut failure: Failed<Req>,
) -> Result<Balanced<S::Response>, Error>
where
    K: Hash + Eq + Clone + Display + 'static,
    S: Service<Req, Error = Failed<Req>> + Availability + 'static,
    Req: 'static,
{
    loop {
        let Attempt {
            handle,
            arrived,
            member,
            load,
        } = attempt;
        let shared = &handle.shared;
        let is_endpoints = is_endpoints(&failure.error);
        match shared.recheck(&member) && is_endpoints {
            true => load.failed(),
            false => load.unsaid(),
        }
        let now = Instant::now();
        let late = now.saturating_duration_since(arrived) > shared.params.queue.failfast;
        let request = match failure.request {
            Some(_) if late => return Err(give_up(&member, failure.error)),
            Some(request) => request,
            None => return Err(failure.error),
        };
        tracing::debug!(endpoint = %member.key, error = %failure.error, "moving request");
        shared.params.metrics.moved.incr();
        let next = match shared.pick(Some(&member), now) {
            Some(next) => next,
            // What the request met itself tells more than that it waited.
            None => match shared.wait(now, Some(&member)).await {
                Ok(next) => next,
                Err(_) => return Err(give_up(&member, failure.error)),
            },
        };
        let response;
        (attempt, response) = Attempt::new(handle, arrived, next, Instant::now(), request);
        match response.await {
            Ok(response) => {
                let load = attempt.load;
                return Ok(Balanced { response, load });
            }
            Err(next) => failure = next,
        }
    }
}

/// Whether a failure tells something of the endpoint: a client's broken body does not, nor a proxy without descriptors.
fn is_endpoints(error: &Error) -> bool {
    matches!(
        error.reason().row().origin,
        Origin::Endpoint | Origin::Network
    )
}

/// No other endpoint took what this one returned.
fn give_up<K, S: Availability>(member: &Member<K, S>, error: Error) -> Error {
    member.service.borrow().gave_up(&error);
    error
}
