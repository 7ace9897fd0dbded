//! An endpoint that is made when it is first used.
//!
//! Of the endpoints that a destination has, a proxy may use few: 10,000 endpoints that are only known must not take the
//! memory of 10,000 clients and their series.

use linkerd_profiles::Endpoint;
use linkerd_proxy_core::{Availability, EndpointState, Error, NewService};
use serde_json::Value;
use std::{
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
};
use tower_service::Service;

/// Makes endpoints, and says of one that is not made what it would say itself before its first request.
pub trait NewLazy: NewService<Arc<Endpoint>> {
    /// Whether it takes requests without having been polled. If not, it is made at once, and connects.
    fn is_ready(&self, endpoint: &Endpoint) -> bool;

    /// What `/state` shows of its connections.
    fn inspect(&self) -> Value;
}

/// An endpoint that is made when it is first used.
///
/// - **Sits** below the endpoint's own metrics.
/// - **Waits for**, **fails as**, **metrics**: what is made.
#[derive(Debug)]
pub struct Lazy<N: NewService<Arc<Endpoint>>> {
    new: Rc<N>,
    endpoint: Arc<Endpoint>,
    made: Option<Box<N::Service>>,
}

impl<N: NewLazy> Lazy<N> {
    /// An endpoint that is not made yet.
    pub fn new(new: Rc<N>, endpoint: Arc<Endpoint>) -> Self {
        Self {
            new,
            endpoint,
            made: None,
        }
    }

    fn make(&mut self) -> &mut N::Service {
        let Self {
            new,
            endpoint,
            made,
        } = self;
        made.get_or_insert_with(|| Box::new(new.new_service(endpoint.clone())))
    }
}

impl<N: NewLazy> Availability for Lazy<N>
where
    N::Service: Availability,
{
    fn state(&self) -> EndpointState {
        match &self.made {
            Some(made) => made.state(),
            None if self.new.is_ready(&self.endpoint) => EndpointState::Ready,
            None => EndpointState::Connecting,
        }
    }

    fn wanted(&self) {
        if let Some(made) = &self.made {
            made.wanted();
        }
    }

    fn gave_up(&self, error: &Error) {
        if let Some(made) = &self.made {
            made.gave_up(error);
        }
    }

    fn inspect(&self) -> Value {
        match &self.made {
            Some(made) => made.inspect(),
            None => self.new.inspect(),
        }
    }
}

impl<N, Req> Service<Req> for Lazy<N>
where
    N: NewLazy,
    N::Service: Service<Req>,
{
    type Response = <N::Service as Service<Req>>::Response;
    type Error = <N::Service as Service<Req>>::Error;
    type Future = <N::Service as Service<Req>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        if self.made.is_none() && self.new.is_ready(&self.endpoint) {
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
    use std::{cell::Cell, future::Ready, net::SocketAddr};

    /// Counts what it makes.
    struct New {
        made: Cell<usize>,
        ready: bool,
    }

    struct Made;

    impl NewService<Arc<Endpoint>> for New {
        type Service = Made;

        fn new_service(&self, _: Arc<Endpoint>) -> Made {
            self.made.set(self.made.get() + 1);
            Made
        }
    }

    impl NewLazy for New {
        fn is_ready(&self, _: &Endpoint) -> bool {
            self.ready
        }

        fn inspect(&self) -> Value {
            "unused".into()
        }
    }

    impl Availability for Made {
        fn state(&self) -> EndpointState {
            EndpointState::StreamLimit
        }
    }

    impl Service<()> for Made {
        type Response = ();
        type Error = Error;
        type Future = Ready<Result<(), Error>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
            Poll::Pending
        }

        fn call(&mut self, (): ()) -> Self::Future {
            std::future::ready(Ok(()))
        }
    }

    fn lazy(ready: bool) -> (Rc<New>, tokio_test::task::Spawn<Lazy<New>>) {
        let made = Cell::new(0);
        let new = Rc::new(New { made, ready });
        let endpoint = Endpoint::new(SocketAddr::from(([10, 0, 0, 1], 80)));
        let lazy = Lazy::new(new.clone(), Arc::new(endpoint));
        (new, tokio_test::task::spawn(lazy))
    }

    #[test]
    fn is_made_by_its_first_request() {
        let (new, mut lazy) = lazy(true);
        assert!(lazy.enter(|cx, mut lazy| lazy.poll_ready(cx)).is_ready());
        assert_eq!(lazy.state(), EndpointState::Ready);
        assert_eq!((lazy.inspect(), new.made.get()), ("unused".into(), 0));
        for _ in 0..2 {
            tokio_test::block_on(lazy.call(())).unwrap();
        }
        assert_eq!(new.made.get(), 1);
        assert_eq!(lazy.state(), EndpointState::StreamLimit);
        assert!(lazy.enter(|cx, mut lazy| lazy.poll_ready(cx)).is_pending());
    }

    #[test]
    fn that_must_connect_first_is_made_when_it_is_polled() {
        let (new, mut lazy) = lazy(false);
        assert_eq!(lazy.state(), EndpointState::Connecting);
        assert!(lazy.enter(|cx, mut lazy| lazy.poll_ready(cx)).is_pending());
        assert_eq!(new.made.get(), 1);
    }
}
