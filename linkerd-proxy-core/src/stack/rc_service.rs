//! A service that is shared by its copies.

use std::{
    cell::RefCell,
    rc::Rc,
    task::{Context, Poll},
};
use tower_layer::Layer;
use tower_service::Service;

/// A service that is shared by its copies: for a stage that calls the service below again, after its own call has returned.
#[derive(Debug)]
pub struct RcService<S>(Rc<RefCell<S>>);

/// Shares the service below, as [`RcService`] does.
#[derive(Clone, Copy, Debug, Default)]
pub struct RcLayer;

impl<S> Layer<S> for RcLayer {
    type Service = RcService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        RcService::new(inner)
    }
}

impl<S> RcService<S> {
    /// Shares a service.
    pub fn new(service: S) -> Self {
        Self(Rc::new(RefCell::new(service)))
    }
}

impl<S> Clone for RcService<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: Service<Req>, Req> Service<Req> for RcService<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        // The borrow ends before the future runs, and stages do not contain themselves.
        self.0.borrow_mut().poll_ready(cx)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        self.0.borrow_mut().call(request)
    }
}
