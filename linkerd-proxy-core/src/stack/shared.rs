//! The edge of a stage.

use futures::future::LocalBoxFuture;
use std::{
    cell::RefCell,
    rc::Rc,
    task::{Context, Poll},
};
use tower_service::Service;

/// A service at the edge of a stage: its type is hidden, its future is in a box, and its copies share it.
pub struct Shared<Req, Rsp, E>(Rc<RefCell<dyn Boxed<Req, Rsp, E>>>);

/// A service whose future is boxed by the call.
trait Boxed<Req, Rsp, E> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), E>>;
    fn call(&mut self, request: Req) -> LocalBoxFuture<'static, Result<Rsp, E>>;
}

impl<Req, S> Boxed<Req, S::Response, S::Error> for S
where
    S: Service<Req, Future: 'static>,
{
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Service::poll_ready(self, cx)
    }

    fn call(&mut self, request: Req) -> LocalBoxFuture<'static, Result<S::Response, S::Error>> {
        Box::pin(Service::call(self, request))
    }
}

impl<Req, Rsp, E> Shared<Req, Rsp, E> {
    /// Hides the type of a service.
    pub fn new<S>(service: S) -> Self
    where
        S: Service<Req, Response = Rsp, Error = E, Future: 'static> + 'static,
    {
        Self(Rc::new(RefCell::new(service)))
    }
}

impl<Req, Rsp, E> Clone for Shared<Req, Rsp, E> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<Req, Rsp, E> std::fmt::Debug for Shared<Req, Rsp, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl<Req, Rsp, E> Service<Req> for Shared<Req, Rsp, E> {
    type Response = Rsp;
    type Error = E;
    type Future = LocalBoxFuture<'static, Result<Rsp, E>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), E>> {
        // The borrow ends before the future runs, and stages do not contain themselves.
        self.0.borrow_mut().poll_ready(cx)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        self.0.borrow_mut().call(request)
    }
}
