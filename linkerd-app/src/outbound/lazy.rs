//! Endpoints that are built on first use.
//!
//! A proxy may use few of a destination's endpoints: 10,000 endpoints that are only known must not take the memory of 10,000
//! clients and their series.

use linkerd_proxy_core::{
    EndpointStatus, NewService,
    endpoint::{Capacity, Endpoint},
};
use std::{
    sync::Arc,
    task::{Context, Poll},
};
use tower_service::Service;

/// An endpoint, and the status that its client writes.
#[derive(Clone, Debug)]
pub struct EndpointTarget {
    /// The endpoint.
    pub endpoint: Arc<Endpoint>,
    /// Its status.
    pub status: EndpointStatus,
}

/// An endpoint that is built on first use: by the first poll if it must connect first, else by the first request.
///
/// - **Sits** below the endpoint's own metrics.
/// - **Waits for**, **fails as**, **metrics**: those of the service that is built.
#[derive(Debug)]
pub struct Lazy<N: NewService<EndpointTarget>> {
    new: N,
    target: EndpointTarget,
    made: Option<Box<N::Service>>,
}

impl<N: NewService<EndpointTarget>> Lazy<N> {
    /// An endpoint that is not built yet.
    pub fn new(new: N, target: EndpointTarget) -> Self {
        Self {
            new,
            target,
            made: None,
        }
    }

    fn make(&mut self) -> &mut N::Service {
        let Self { new, target, made } = self;
        made.get_or_insert_with(|| Box::new(new.new_service(target.clone())))
    }
}

impl<N, Req> Service<Req> for Lazy<N>
where
    N: NewService<EndpointTarget, Service: Service<Req>>,
{
    type Response = <N::Service as Service<Req>>::Response;
    type Error = <N::Service as Service<Req>>::Error;
    type Future = <N::Service as Service<Req>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        if self.made.is_none() && self.target.status.capacity() == Capacity::OnDemand {
            return Poll::Ready(Ok(()));
        }
        self.make().poll_ready(cx)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        self.make().call(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{cell::Cell, net::SocketAddr, rc::Rc};
    use tokio_test::task::{Spawn, spawn};
    use tower_test::mock::{self, Handle, Mock};

    /// Makes a mock, once.
    #[derive(Clone)]
    struct New(Rc<Cell<Option<Mock<(), ()>>>>);

    impl NewService<EndpointTarget> for New {
        type Service = Mock<(), ()>;

        fn new_service(&self, _: EndpointTarget) -> Self::Service {
            self.0.take().expect("it is made once")
        }
    }

    fn lazy(capacity: Capacity) -> (New, Spawn<Lazy<New>>, Handle<(), ()>) {
        let (mock, handle) = mock::pair();
        let new = New(Rc::new(Cell::new(Some(mock))));
        let target = EndpointTarget {
            endpoint: Arc::new(Endpoint::new(SocketAddr::from(([10, 0, 0, 1], 80)))),
            status: EndpointStatus::new(capacity),
        };
        (new.clone(), spawn(Lazy::new(new, target)), handle)
    }

    fn is_made(new: &New) -> bool {
        let mock = new.0.take();
        let is_made = mock.is_none();
        new.0.set(mock);
        is_made
    }

    #[tokio::test]
    async fn is_made_by_its_first_request() {
        let (new, mut lazy, mut handle) = lazy(Capacity::OnDemand);
        assert!(lazy.enter(|cx, mut lazy| lazy.poll_ready(cx)).is_ready());
        assert!(!is_made(&new));
        handle.allow(1);
        lazy.make();
        assert!(lazy.enter(|cx, mut lazy| lazy.poll_ready(cx)).is_ready());
        let response = lazy.call(());
        handle.next_request().await.unwrap().1.send_response(());
        response.await.unwrap();
        handle.allow(0);
        assert!(lazy.enter(|cx, mut lazy| lazy.poll_ready(cx)).is_pending());
    }

    #[tokio::test]
    async fn that_must_connect_first_is_made_when_it_is_polled() {
        let (new, mut lazy, mut handle) = lazy(Capacity::Connecting);
        handle.allow(0);
        assert!(lazy.enter(|cx, mut lazy| lazy.poll_ready(cx)).is_pending());
        assert!(is_made(&new));
    }
}
