//! The balancer as a tower service.

use crate::{
    Arrival, Failfast, LoadHandle, MeasuredResponse, Member, Params,
    affinity::AffinityKey,
    driver::Driver,
    member::{Candidate, Ready},
    queue::Queue,
    state::BalanceState,
};
use futures::{Stream, future::LocalBoxFuture, stream};
use linkerd_proxy_core::{Error, Rejected, Unavailable, reason::Origin, task::spawn_local};
use pin_project_lite::pin_project;
use std::{
    cell::{Cell, RefCell},
    fmt::Display,
    hash::Hash,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};
use tokio::{task::JoinHandle, time::Instant};
use tower::discover::Change;
use tower_service::Service;

/// Sends each request to the less loaded of two random endpoints. Copies share all state.
///
/// Updates come as batches of changes; after the first batch, even an empty one, the set counts as known. Requests do not wait
/// for an endpoint of a set that is known to be empty. Must be created and used where `spawn_local` works.
pub struct Balance<K, S>(Rc<Handle<K, S>>);

/// Ends the driver when the last copy of the balancer and the last waiting request are dropped.
struct Handle<K, S> {
    shared: Rc<BalanceState<K, S>>,
    driver: JoinHandle<()>,
}

impl<K, S> Balance<K, S>
where
    K: Hash + Eq + Clone + Display + 'static,
    S: 'static,
{
    /// Balances over the endpoints in `updates`.
    pub fn new<Req, D>(updates: D, mut params: Params) -> Self
    where
        D: Stream<Item = Result<Vec<Change<K, Member<S>>>, Error>> + Unpin + 'static,
        S: Service<Req, Error = Rejected<Req>>,
        Req: 'static,
    {
        let rng = std::mem::replace(&mut params.rng, rand::SeedableRng::seed_from_u64(0));
        let shared = Rc::new(BalanceState {
            failfast: Cell::new(Failfast::new(params.queue.failfast)),
            params,
            slots: RefCell::default(),
            ready: Ready::new(),
            queue: Queue::default(),
            resolved: Cell::new(false),
            emptied: Cell::new(None),
            terminal: RefCell::default(),
            rng: RefCell::new(rng),
            driver: Cell::default(),
            demoted: RefCell::default(),
            ejected: RefCell::default(),
        });
        let driver = Driver::<K, S, Req, D>::new(shared.clone(), updates);
        Self(Rc::new(Handle {
            shared,
            driver: spawn_local(driver),
        }))
    }

    /// Balances over one endpoint that never changes: requests wait for it, and fail fast, as with several.
    pub fn one<Req>(key: K, member: Member<S>, params: Params) -> Self
    where
        S: Service<Req, Error = Rejected<Req>>,
        Req: 'static,
    {
        let only = vec![Change::Insert(key, member)];
        Self::new::<Req, _>(stream::iter([Ok(only)]), params)
    }

    /// The cause for which a request would be refused now, if it would.
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
    S: Service<Req, Error = Rejected<Req>, Response: MeasuredResponse> + 'static,
    Req: Arrival + 'static,
{
    type Response = S::Response;
    type Error = Error;
    type Future = BalanceFuture<K, S, Req>;

    /// Always ready: each request decides whether to wait, see [`Balance::unavailable`].
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    /// Sends a request. A ready endpoint has the request when this returns: futures stay small, and a request is not moved from
    /// one to the next (that took a sixth of the instructions of a request).
    fn call(&mut self, request: Req) -> Self::Future {
        let shared = &self.0.shared;
        let metrics = &shared.params.metrics;
        metrics.queue_requests.incr();
        let arrived = request.arrived();
        let key = shared.key(&request);
        match shared.pick(request.avoids(), key, arrived) {
            Some(candidate) => {
                metrics.queue_latency.observe(0);
                BalanceFuture::trying(self.0.clone(), arrived, candidate, request)
            }
            None => BalanceFuture::waiting(waits(self.0.clone(), arrived, key, request)),
        }
    }
}

/// A request that was given to an endpoint.
struct Attempt<K, S> {
    handle: Rc<Handle<K, S>>,
    arrived: Instant,
    candidate: Rc<Candidate<K, S>>,
    load: LoadHandle,
}

impl<K, S> Attempt<K, S> {
    fn new<Req>(
        handle: Rc<Handle<K, S>>,
        arrived: Instant,
        candidate: Rc<Candidate<K, S>>,
        now: Instant,
        mut request: Req,
    ) -> (Self, S::Future)
    where
        S: Service<Req>,
        Req: Arrival,
    {
        request.attempted(now, candidate.id());
        let load = candidate.load.clone().start(now);
        let response = candidate.service.borrow_mut().call(request);
        let attempt = Self {
            handle,
            arrived,
            candidate,
            load,
        };
        (attempt, response)
    }
}

pin_project! {
    /// The future of [`Balance`].
    ///
    /// Small: an async block would hold the endpoint's future twice, and so would each block around it.
    pub struct BalanceFuture<K, S, Req>
    where
        S: Service<Req>,
    {
        #[pin]
        response: Option<S::Future>,
        attempt: Option<Attempt<K, S>>,
        // A request that waits, or that its first endpoint returned.
        rest: Option<Rest<S::Response>>,
    }
}

type Rest<Rsp> = LocalBoxFuture<'static, Result<Rsp, Error>>;

impl<K, S, Req> BalanceFuture<K, S, Req>
where
    S: Service<Req>,
{
    fn trying(
        handle: Rc<Handle<K, S>>,
        arrived: Instant,
        candidate: Rc<Candidate<K, S>>,
        request: Req,
    ) -> Self
    where
        Req: Arrival,
    {
        let (attempt, response) = Attempt::new(handle, arrived, candidate, arrived, request);
        Self {
            response: Some(response),
            attempt: Some(attempt),
            rest: None,
        }
    }

    fn waiting(rest: impl Future<Output = Result<S::Response, Error>> + 'static) -> Self {
        Self {
            response: None,
            attempt: None,
            rest: Some(Box::pin(rest)),
        }
    }
}

impl<K, S, Req> Future for BalanceFuture<K, S, Req>
where
    K: Hash + Eq + Clone + Display + 'static,
    S: Service<Req, Error = Rejected<Req>, Response: MeasuredResponse> + 'static,
    Req: Arrival + 'static,
{
    type Output = Result<S::Response, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let Some(response) = this.response.as_mut().as_pin_mut() {
            let mut result = ready!(response.poll(cx));
            let attempt = this.attempt.take().expect("an attempt has one response");
            if let Ok(response) = &mut result {
                response.measure(attempt.load);
                return Poll::Ready(result.map_err(|rejected| rejected.error));
            }
            this.response.set(None);
            if let Err(rejected) = result {
                *this.rest = Some(Box::pin(elsewhere(attempt, rejected)));
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
    key: Option<AffinityKey>,
    request: Req,
) -> Result<S::Response, Error>
where
    K: Hash + Eq + Clone + Display + 'static,
    S: Service<Req, Error = Rejected<Req>, Response: MeasuredResponse> + 'static,
    Req: Arrival + 'static,
{
    let shared = &handle.shared;
    let noted = request.waits_in(shared);
    let candidate = shared.wait(arrived, None, key).await?;
    drop(noted);
    let now = Instant::now();
    let waited = now.saturating_duration_since(arrived);
    shared.params.metrics.queue_latency.observe_duration(waited);
    let (attempt, response) = Attempt::new(handle, arrived, candidate, now, request);
    match response.await {
        Ok(mut response) => {
            response.measure(attempt.load);
            Ok(response)
        }
        Err(rejected) => elsewhere(attempt, rejected).await,
    }
}

/// A request that its endpoint returned: it goes to one endpoint after another, until one takes it or the time is up.
async fn elsewhere<K, S, Req>(
    mut attempt: Attempt<K, S>,
    mut rejected: Rejected<Req>,
) -> Result<S::Response, Error>
where
    K: Hash + Eq + Clone + Display + 'static,
    S: Service<Req, Error = Rejected<Req>, Response: MeasuredResponse> + 'static,
    Req: Arrival + 'static,
{
    loop {
        let Attempt {
            handle,
            arrived,
            candidate,
            load,
        } = attempt;
        let shared = &handle.shared;
        let is_endpoints = is_endpoints(&rejected.error);
        match shared.recheck(&candidate) && is_endpoints {
            true => load.failed(),
            false => load.unsaid(),
        }
        let now = Instant::now();
        // A request that was returned unsent may go from endpoint to endpoint without end. A sent request is returned a few times
        // at most, however long an endpoint or its proxy had it.
        let waited = now.saturating_duration_since(arrived);
        let late = !rejected.was_sent && waited > shared.params.queue.failfast;
        let request = match rejected.request.take() {
            Some(_) if late => return Err(rejected.into_final()),
            Some(request) => request,
            None => return Err(rejected.error),
        };
        tracing::debug!(endpoint = %candidate.key, error = %rejected.error, "moving request");
        shared.params.metrics.moved.incr();
        let key = shared.key(&request);
        let next = match shared.pick(Some(candidate.id()), key, now) {
            Some(next) => next,
            // The endpoint's own error says more than the failure to wait.
            None => {
                let _noted = request.waits_in(shared);
                match shared.wait(now, Some(candidate.id()), key).await {
                    Ok(next) => next,
                    Err(_) => return Err(rejected.into_final()),
                }
            }
        };
        let response;
        (attempt, response) = Attempt::new(handle, arrived, next, Instant::now(), request);
        match response.await {
            Ok(mut response) => {
                response.measure(attempt.load);
                return Ok(response);
            }
            Err(next) => rejected = next,
        }
    }
}

/// Whether a failure is the endpoint's: unlike a client's broken body, or a proxy without descriptors.
fn is_endpoints(error: &Error) -> bool {
    matches!(
        error.reason().row().origin,
        Origin::Endpoint | Origin::Network
    )
}
