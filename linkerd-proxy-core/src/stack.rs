//! How stages are put together.
//!
//! A stage is a tower `Service`; what makes one for a target is a [`NewService`]. Layers wrap either. Everything of a
//! worker stays on its thread, so services are shared by `Rc`, and readiness reserves nothing: a service that was ready
//! may be called by anybody who holds it.

use futures::future::LocalBoxFuture;
use std::{
    cell::RefCell,
    rc::Rc,
    task::{Context, Poll},
};
use tower_layer::Layer;
use tower_service::Service;

/// Makes a service for a target, at once and without failing.
pub trait NewService<T> {
    /// What is made.
    type Service;

    /// Makes the service for `target`.
    fn new_service(&self, target: T) -> Self::Service;
}

impl<T, S, F: Fn(T) -> S> NewService<T> for F {
    type Service = S;

    fn new_service(&self, target: T) -> S {
        self(target)
    }
}

/// Layers, from the inside out.
#[derive(Clone, Debug)]
pub struct Stack<S>(S);

impl<S> Stack<S> {
    /// Starts with the innermost part.
    pub fn new(inner: S) -> Self {
        Self(inner)
    }

    /// Wraps what there is.
    pub fn push<L: Layer<S>>(self, layer: L) -> Stack<L::Service> {
        Stack(layer.layer(self.0))
    }

    /// The stack.
    pub fn into_inner(self) -> S {
        self.0
    }
}

/// A service at the edge of a stage: its type is hidden, and its copies share it.
pub struct Shared<Req, Rsp, E>(Rc<Inner<Req, Rsp, E>>);

type Inner<Req, Rsp, E> = RefCell<
    dyn Service<Req, Response = Rsp, Error = E, Future = LocalBoxFuture<'static, Result<Rsp, E>>>,
>;

impl<Req, Rsp, E> Shared<Req, Rsp, E> {
    /// Hides the type of a service whose futures are boxed already.
    pub fn new<S>(service: S) -> Self
    where
        S: Service<Req, Response = Rsp, Error = E> + 'static,
        S: Service<Req, Future = LocalBoxFuture<'static, Result<Rsp, E>>>,
    {
        Self(Rc::new(RefCell::new(service)))
    }
}

impl<Req, Rsp, E> Clone for Shared<Req, Rsp, E> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
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

    fn call(&mut self, req: Req) -> Self::Future {
        self.0.borrow_mut().call(req)
    }
}
