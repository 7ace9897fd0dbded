//! A service whose copies share it.

use std::{
    cell::RefCell,
    rc::Rc,
    task::{Context, Poll},
};
use tower_service::Service;

/// A service whose copies share it: for a stage that calls the one below again, after its own call has returned.
#[derive(Debug)]
pub struct RcService<S>(Rc<RefCell<S>>);

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
