//! Stage 5: the backends of a router; backends that an update keeps are reused.

use super::stack_counts::CountedStack;
use linkerd_profiles::{Backend, Meta};
use linkerd_proxy_core::Unavailable;
use serde_json::Value;
use std::{cell::RefCell, rc::Rc, sync::Arc};

/// The backends of one router.
///
/// - **Bounds**: the backends of the current policy. A backend that an update keeps retains its endpoints, their connections and
///   measurements.
pub struct Backends<S>(RefCell<Vec<(BackendKey, Rc<BackendHandle<S>>)>>);

/// A backend, and the resource whose traffic it gets.
#[derive(Clone, Debug, PartialEq)]
pub struct BackendKey {
    /// The resource that the traffic was meant for.
    pub parent: Arc<Meta>,
    /// The backend.
    pub backend: Backend,
}

/// A backend, shared by the routes that use it.
pub struct BackendHandle<S> {
    /// Sends requests to the backend.
    pub service: S,
    status: Box<dyn BackendStatus>,
    _counted: CountedStack,
}

/// The availability of a backend: a handle beside its service.
pub trait BackendStatus {
    /// The name of the backend, for errors.
    fn name(&self) -> String;

    /// The reason to refuse a request now; `None` if the backend takes requests.
    fn unavailable(&self) -> Option<Unavailable>;

    /// The backend in `/state`.
    fn inspect(&self) -> Value;
}

impl<S> BackendHandle<S> {
    /// A backend; `counted` counts it as long as it lives.
    pub fn new(service: S, status: impl BackendStatus + 'static, counted: CountedStack) -> Self {
        Self {
            service,
            status: Box::new(status),
            _counted: counted,
        }
    }
}

impl<S> Backends<S> {
    /// The backend of a key, built by `make` if missing.
    pub fn get(
        &self,
        key: BackendKey,
        make: impl FnOnce(&BackendKey) -> BackendHandle<S>,
    ) -> Rc<BackendHandle<S>> {
        let mut backends = self.0.borrow_mut();
        if let Some((_, backend)) = backends.iter().find(|(known, _)| *known == key) {
            return backend.clone();
        }
        let backend = Rc::new(make(&key));
        // Most routers have one backend.
        backends.reserve_exact(1);
        backends.push((key, backend.clone()));
        backend
    }

    /// The backend of a key, if it exists.
    pub fn peek(&self, key: &BackendKey) -> Option<Rc<BackendHandle<S>>> {
        let backends = self.0.borrow();
        let (_, backend) = backends.iter().find(|(known, _)| known == key)?;
        Some(backend.clone())
    }

    /// Drops backends that no route uses, unless `is_named`: the route of a named backend may not be built yet.
    pub fn forget_unused(&self, is_named: impl Fn(&BackendKey) -> bool) {
        let mut backends = self.0.borrow_mut();
        backends.retain(|(key, backend)| Rc::strong_count(backend) > 1 || is_named(key));
    }

    /// The backends, for `/state`.
    pub fn inspect(&self) -> Vec<Value> {
        let backends = self.0.borrow();
        let inspect = |(key, backend): &(BackendKey, Rc<BackendHandle<S>>)| {
            let mut shown = backend.status.inspect();
            shown["backend"] = key.backend.meta.to_string().into();
            shown["parent"] = key.parent.to_string().into();
            shown
        };
        backends.iter().map(inspect).collect()
    }
}

impl<S> Default for Backends<S> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<S> BackendStatus for BackendHandle<S> {
    fn name(&self) -> String {
        self.status.name()
    }

    fn unavailable(&self) -> Option<Unavailable> {
        self.status.unavailable()
    }

    fn inspect(&self) -> Value {
        self.status.inspect()
    }
}
