//! Composition of stages.
//!
//! A stage is a tower `Service`; a [`NewService`] makes a stage for a target. tower's own `ServiceBuilder` puts layers
//! around a service, and lists them in the order in which a request passes them. All services of a worker stay on its
//! thread, so they are shared by `Rc`, and readiness reserves nothing: any owner of a service that was ready may call it.

mod observe;
mod rc_service;
mod refusable;
mod shared;
mod stage_names;

pub use observe::{Observe, ObserveCall, ObserveFuture, ObserveLayer};
pub use rc_service::{RcLayer, RcService};
pub use refusable::Refusable;
pub use shared::Shared;
pub use stage_names::StageNames;

/// Makes a service for a target, at once and without failing.
pub trait NewService<T> {
    /// The service.
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
