//! The limit of requests in flight, in either direction.

use linkerd_proxy_core::{Error, Reason, Refusable, crowd::source};
use pin_project_lite::pin_project;
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    net::IpAddr,
    pin::Pin,
    rc::{Rc, Weak},
    task::{Context, Poll},
};
use tower_layer::Layer;
use tower_service::Service;

/// Requests in flight on one worker, and their limit. Its copies share them.
///
/// Up to the limit, all requests are let in. There are as many places again for sources that hold few: a client that has taken all
/// places of the limit shuts out none but itself ([`admits`]).
#[derive(Clone, Debug)]
pub struct InFlightLimit(Rc<Source>);

#[derive(Debug)]
struct InFlightState {
    count: Cell<usize>,
    limit: usize,
    sources: RefCell<HashMap<IpAddr, Weak<Source>>>,
}

/// The requests of one source: an address of clients, or all clients together.
#[derive(Debug)]
struct Source {
    state: Rc<InFlightState>,
    count: Cell<usize>,
    /// `None`: all clients.
    addr: Option<IpAddr>,
}

/// A request in flight, until it is dropped.
#[derive(Debug)]
pub struct InFlight(Rc<Source>);

impl InFlightLimit {
    /// At most `limit` requests, of clients that are one source.
    pub fn new(limit: usize) -> Self {
        let state = InFlightState {
            count: Cell::new(0),
            limit,
            sources: RefCell::default(),
        };
        Self(Rc::new(Source {
            state: Rc::new(state),
            count: Cell::new(0),
            addr: None,
        }))
    }

    /// The same limit, for the requests of a client: those of its address are counted together.
    pub fn of(&self, client: IpAddr) -> Self {
        let addr = source(client);
        let state = &self.0.state;
        let mut sources = state.sources.borrow_mut();
        if let Some(known) = sources.get(&addr).and_then(Weak::upgrade) {
            return Self(known);
        }
        let new = Rc::new(Source {
            state: state.clone(),
            count: Cell::new(0),
            addr: Some(addr),
        });
        sources.insert(addr, Rc::downgrade(&new));
        Self(new)
    }

    /// Counts a request as in flight, unless there are too many.
    pub fn begin(&self) -> Result<InFlight, Error> {
        let own = self.0.count.get();
        let state = &self.0.state;
        let count = state.count.get();
        if !admits(count, own, state.limit) {
            return Err(Reason::InFlightLimit.into());
        }
        state.count.set(count + 1);
        self.0.count.set(own + 1);
        Ok(InFlight(self.0.clone()))
    }

    /// The number of requests in flight.
    pub fn count(&self) -> usize {
        self.0.state.count.get()
    }

    /// The limit.
    pub fn limit(&self) -> usize {
        self.0.state.limit
    }
}

/// Whether a source with `own` requests in flight may have one more while there are `all` from all sources.
///
/// Beyond the limit, a source may hold half of the places that it leaves free (a dynamic threshold, as switches share the memory of
/// their queues): whatever number of sources take as much as they can, another one finds places. There are never more requests than
/// twice the limit.
fn admits(all: usize, own: usize, limit: usize) -> bool {
    all < limit || own < limit.saturating_mul(2).saturating_sub(all) / 2
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let source = &self.0;
        source.count.set(source.count.get() - 1);
        source.state.count.set(source.state.count.get() - 1);
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        if let Some(addr) = &self.addr {
            self.state.sources.borrow_mut().remove(addr);
        }
    }
}

/// Refuses requests beyond the limit, as `InFlightLimit`. A request is in flight until the head of its response.
#[derive(Clone, Debug)]
pub struct InFlightLimitLayer(InFlightLimit);

/// See [`InFlightLimitLayer`].
#[derive(Clone, Debug)]
pub struct InFlightLimited<S> {
    inner: S,
    limit: InFlightLimit,
}

impl InFlightLimitLayer {
    /// Counts requests towards `limit`.
    pub fn new(limit: &InFlightLimit) -> Self {
        Self(limit.clone())
    }
}

impl<S> Layer<S> for InFlightLimitLayer {
    type Service = InFlightLimited<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let limit = self.0.clone();
        InFlightLimited { inner, limit }
    }
}

impl<S, Req> Service<Req> for InFlightLimited<S>
where
    S: Service<Req, Error = Error>,
{
    type Response = S::Response;
    type Error = Error;
    type Future = Refusable<InFlightFuture<S::Future>, Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    // The observers call it at two places; in one function of its own the future would be moved once more.
    #[inline(always)]
    fn call(&mut self, request: Req) -> Self::Future {
        match self.limit.begin() {
            Ok(in_flight) => Refusable::called(InFlightFuture {
                inner: self.inner.call(request),
                _in_flight: in_flight,
            }),
            Err(error) => Refusable::refused(error),
        }
    }
}

pin_project! {
    /// The future of a request in flight.
    pub struct InFlightFuture<F> {
        #[pin]
        inner: F,
        _in_flight: InFlight,
    }
}

impl<F: Future> Future for InFlightFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.project().inner.poll(cx)
    }
}

/// A worker's share of a limit of the whole proxy.
pub fn share(limit: usize, workers: usize) -> usize {
    limit.div_ceil(workers.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MockStage, assert_readiness_passes};
    use proptest::prelude::*;

    #[test]
    fn what_ends_makes_room() {
        let limit = InFlightLimit::new(1);
        let first = limit.begin().unwrap();
        assert_eq!(limit.begin().unwrap_err().reason(), Reason::InFlightLimit);
        drop(first);
        assert!(limit.begin().is_ok());
        assert_eq!(limit.count(), 0);
    }

    #[test]
    fn a_source_that_holds_all_places_shuts_out_itself_alone() {
        let limit = InFlightLimit::new(100);
        let (attacker, innocent) = (
            limit.of([10, 0, 0, 1].into()),
            limit.of([10, 0, 0, 2].into()),
        );
        let held: Vec<_> = std::iter::from_fn(|| attacker.begin().ok()).collect();
        assert_eq!((held.len(), limit.count()), (100, 100));
        let requests: Vec<_> = std::iter::from_fn(|| innocent.begin().ok()).collect();
        assert_eq!(requests.len(), 33, "a third of the places beyond the limit");
        assert!(limit.of([10, 0, 0, 3].into()).begin().is_ok());
        drop((held, requests));
        assert_eq!(limit.count(), 0);
    }

    #[test]
    fn the_clients_of_an_address_are_one_source_until_the_last_has_left() {
        let limit = InFlightLimit::new(1);
        let (one, mapped) = (
            "10.0.0.1".parse().unwrap(),
            "::ffff:10.0.0.1".parse().unwrap(),
        );
        let (one, other) = (limit.of(one), limit.of(mapped));
        assert!(Rc::ptr_eq(&one.0, &other.0));
        assert_eq!(limit.0.state.sources.borrow().len(), 1);
        drop((one, other));
        assert!(limit.0.state.sources.borrow().is_empty());
    }

    proptest! {
        #[test]
        fn a_source_without_requests_is_let_in_whatever_few_others_hold(
            limit in 100_usize..100_000,
            greedy in 1_usize..8,
        ) {
            let mut held = vec![0; greedy];
            let mut all = 0;
            // Each takes in turn as much as it can.
            for own in &mut held {
                while admits(all, *own, limit) {
                    *own += 1;
                    all += 1;
                }
            }
            prop_assert!(all <= 2 * limit);
            prop_assert!(admits(all, 0, limit), "{held:?}");
        }
    }

    #[tokio::test]
    async fn a_request_is_in_flight_until_it_is_answered_or_dropped() {
        let limit = InFlightLimit::new(1);
        let never = tower::service_fn(|()| std::future::pending::<Result<(), Error>>());
        let mut service = InFlightLimitLayer::new(&limit).layer(never);
        let first = service.call(());
        let refused = service.call(()).await.unwrap_err();
        assert_eq!(refused.reason(), Reason::InFlightLimit);
        drop(first);
        assert_eq!(limit.count(), 0);
    }

    #[tokio::test]
    async fn is_ready_when_the_stage_below_is() {
        let (mock, mut below) = MockStage::<(), (), Error>::new();
        let service = InFlightLimitLayer::new(&InFlightLimit::new(1)).layer(mock);
        assert_readiness_passes(service, &mut below);
    }

    #[tokio::test]
    async fn a_request_that_fails_below_makes_room() {
        let limit = InFlightLimit::new(1);
        let (mock, mut below) = MockStage::<(), (), Error>::new();
        let mut service = InFlightLimitLayer::new(&limit).layer(mock);
        for _ in 0..2 {
            let answer = service.call(());
            let ((), respond) = below.next_request().await.unwrap();
            assert_eq!(limit.count(), 1);
            respond.send_response(Err(Reason::NoRoute.into()));
            assert_eq!(answer.await.unwrap_err().reason(), Reason::NoRoute);
            assert_eq!(limit.count(), 0);
        }
    }

    #[test]
    fn shares_make_up_the_whole() {
        assert_eq!([share(10, 3), share(10, 1), share(10, 0)], [4, 10, 10]);
    }
}
