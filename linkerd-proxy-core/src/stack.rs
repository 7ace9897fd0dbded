//! How stages are put together.
//!
//! A stage is a tower `Service`; what makes one for a target is a [`NewService`]. tower's own `ServiceBuilder` puts layers
//! around a service, and lists them in the order in which a request meets them. Everything of a worker stays on its
//! thread, so services are shared by `Rc`, and readiness reserves nothing: a service that was ready may be called by
//! anybody who holds it.

mod observe;
mod rc_service;
mod refusable;
mod shared;
mod stage_names;

pub use observe::{Observe, ObserveCall, ObserveFuture, ObserveLayer};
pub use rc_service::RcService;
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
