//! The wait of a request for an endpoint.

use crate::{
    Failfast, affinity::AffinityKey, member::Candidate, queue::Waiter, state::BalanceState,
};
use linkerd_proxy_core::{Error, Reason, http::EndpointId};
use std::{fmt::Display, hash::Hash, rc::Rc, task::Poll};
use tokio::time::Instant;
use tower_service::Service;

impl<K, S> BalanceState<K, S>
where
    K: Hash + Eq + Clone + Display + 'static,
    S: 'static,
{
    /// Waits for a ready endpoint, at most until the backend fails fast.
    pub(crate) async fn wait<Req>(
        self: &Rc<Self>,
        now: Instant,
        avoid: Option<EndpointId>,
        key: Option<AffinityKey>,
    ) -> Result<Rc<Candidate<K, S>>, Error>
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
        // The incumbent's queue holds one more request, which its worker has taken out.
        if self.queue.len() > self.params.queue.capacity {
            return Err(Reason::QueueFull.into());
        }
        let place = QueuePlace::new(self.clone());
        self.update(|failfast| failfast.wait(now));
        self.wake_driver();
        std::future::poll_fn(|cx| {
            if place.waiter.is_expired() {
                return Poll::Ready(Err(match &*self.terminal.borrow() {
                    Some((reason, detail)) => Error::new(*reason).detail(detail.clone()),
                    None => Reason::Failfast(self.cause()).into(),
                }));
            }
            match self.pick(avoid, key, Instant::now()) {
                Some(candidate) => Poll::Ready(Ok(candidate)),
                None => {
                    place.waiter.register(cx);
                    Poll::Pending
                }
            }
        })
        .await
    }
}

/// A place in the queue, released when the request stops waiting for any reason.
struct QueuePlace<K, S>
where
    K: Hash + Eq + Clone + Display + 'static,
    S: 'static,
{
    shared: Rc<BalanceState<K, S>>,
    waiter: Rc<Waiter>,
}

impl<K, S> QueuePlace<K, S>
where
    K: Hash + Eq + Clone + Display + 'static,
    S: 'static,
{
    fn new(shared: Rc<BalanceState<K, S>>) -> Self {
        shared.params.metrics.queue_length.incr();
        let waiter = shared.queue.push();
        Self { shared, waiter }
    }
}

impl<K, S> Drop for QueuePlace<K, S>
where
    K: Hash + Eq + Clone + Display + 'static,
    S: 'static,
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
