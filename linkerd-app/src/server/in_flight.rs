//! The limit of requests in flight, in either direction.

use linkerd_proxy_core::{Error, Reason, Refusable};
use pin_project_lite::pin_project;
use std::{
    cell::Cell,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};
use tower_layer::Layer;
use tower_service::Service;

/// Requests in flight on one worker, and their limit. Its copies share them.
#[derive(Clone, Debug)]
pub struct InFlightLimit(Rc<InFlightState>);

#[derive(Debug)]
struct InFlightState {
    count: Cell<usize>,
    limit: usize,
}

/// A request in flight, until it is dropped.
#[derive(Debug)]
pub struct InFlight(Rc<InFlightState>);

impl InFlightLimit {
    /// At most `limit` requests.
    pub fn new(limit: usize) -> Self {
        let count = Cell::new(0);
        Self(Rc::new(InFlightState { count, limit }))
    }

    /// Counts a request as in flight, unless there are too many.
    pub fn begin(&self) -> Result<InFlight, Error> {
        let count = self.0.count.get();
        if count >= self.0.limit {
            return Err(Reason::InFlightLimit.into());
        }
        self.0.count.set(count + 1);
        Ok(InFlight(self.0.clone()))
    }

    /// The number of requests in flight.
    pub fn count(&self) -> usize {
        self.0.count.get()
    }

    /// The limit.
    pub fn limit(&self) -> usize {
        self.0.limit
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.count.set(self.0.count.get() - 1);
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

    #[test]
    fn what_ends_makes_room() {
        let limit = InFlightLimit::new(1);
        let first = limit.begin().unwrap();
        assert_eq!(limit.begin().unwrap_err().reason(), Reason::InFlightLimit);
        drop(first);
        assert!(limit.begin().is_ok());
        assert_eq!(limit.count(), 0);
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
