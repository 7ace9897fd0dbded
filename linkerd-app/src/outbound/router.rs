//! Stage 4: the routes of a target, replaced when its policy changes.
//!
//! The router reads an immutable snapshot; the check for an update is one atomic load.

use futures::future::LocalBoxFuture;
use linkerd_profiles::{Discovered, DiscoveryState, DiscoveryWatch, Meta, RouteSource};
use linkerd_proxy_core::{Destination, Error, Reason, Shared};
use serde_json::Value;
use std::{
    cell::RefCell,
    rc::Rc,
    task::{Context, Poll},
};
use tokio::sync::watch;
use tower_service::Service;

/// A service for the requests of one route.
pub type RouteService<R> = Shared<<R as Routes>::Request, <R as Routes>::Response, Error>;

/// Routes of one protocol.
pub trait Routes: Sized + 'static {
    /// A request.
    type Request: 'static;
    /// Its response.
    type Response: 'static;
    /// The routes of one policy.
    type Snapshot: Service<
            Self::Request,
            Response = Self::Response,
            Error = Error,
            Future = LocalBoxFuture<'static, Result<Self::Response, Error>>,
        >;

    /// Builds the routes of a target's policy, or returns the refusal of all requests. Called when the policy changes.
    fn snapshot(self: &Rc<Self>, discovered: &Discovered) -> Result<Self::Snapshot, Refusal>;

    /// Called after the previous routes are dropped: drops backends that `present` does not name.
    fn replaced(&self, present: Option<&Self::Snapshot>);

    /// The routes and backends, for `/state`.
    fn inspect(&self, present: Option<&Self::Snapshot>) -> Value;
}

/// The reason for which all requests are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason.
    pub reason: Reason,
    /// A message in place of the reason's text.
    pub detail: Option<String>,
}

/// Routes the requests of one target. Its copies share everything.
///
/// - **Waits for** nothing.
/// - **Fails as** `NoRoute`, `InvalidPolicy`, `Forbidden`, and as the route fails.
/// - **Bounds**: backends are those of the present policy. A request in flight finishes on the route that it began with.
pub struct Router<R: Routes>(Rc<RouterState<R>>);

struct RouterState<R: Routes> {
    routes: Rc<R>,
    updates: RefCell<watch::Receiver<DiscoveryState>>,
    present: RefCell<Result<R::Snapshot, Refusal>>,
}

impl<R: Routes> Router<R> {
    /// A router that follows the policies of `watch`; `discovered` is the current one.
    pub fn new(watch: &DiscoveryWatch, discovered: &Discovered, routes: R) -> Self {
        let mut updates = watch.receiver();
        updates.mark_unchanged();
        let routes = Rc::new(routes);
        Self(Rc::new(RouterState {
            present: RefCell::new(routes.snapshot(discovered)),
            updates: RefCell::new(updates),
            routes,
        }))
    }

    /// The routes of all policies of the target.
    pub fn routes(&self) -> &R {
        &self.0.routes
    }

    /// The routes and backends, for `/state`.
    pub fn inspect(&self) -> Value {
        self.0.routes.inspect(self.0.present.borrow().as_ref().ok())
    }
}

/// The error of a request or connection for which the policy of `parent` has no route. It names both the address that the client
/// used and the resource: the address may be one of a service's that the client does not know.
pub fn no_route(logical: Option<&Destination>, target: &str, parent: &Meta) -> Error {
    let logical = logical.map_or(target, |logical| logical.as_str());
    Error::new(Reason::NoRoute)
        .context(format!("parent {parent}"))
        .context(format!("logical service {logical}"))
}

impl<R: Routes> RouterState<R> {
    /// Applies an update, if there is one.
    fn update(&self) {
        let mut updates = self.updates.borrow_mut();
        if !updates.has_changed().unwrap_or(false) {
            return;
        }
        // A failure keeps the last policy.
        if let DiscoveryState::Ready(discovered) = &*updates.borrow_and_update() {
            let next = self.routes.snapshot(discovered);
            let present = self.present.replace(next);
            drop(present);
            self.routes.replaced(self.present.borrow().as_ref().ok());
        }
    }
}

impl<R: Routes> Clone for Router<R> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<R: Routes> Service<R::Request> for Router<R> {
    type Response = R::Response;
    type Error = Error;
    type Future = LocalBoxFuture<'static, Result<R::Response, Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: R::Request) -> Self::Future {
        self.0.update();
        match &mut *self.0.present.borrow_mut() {
            Ok(route) => route.call(request),
            Err(refusal) => Box::pin(std::future::ready(Err(refusal.error()))),
        }
    }
}

impl Refusal {
    /// A refusal with the reason's own text.
    pub fn new(reason: Reason) -> Self {
        let detail = None;
        Self { reason, detail }
    }

    /// The refusal of an invalid policy.
    pub fn invalid(reason: &str, target: &str) -> Self {
        tracing::warn!(%target, %reason, "invalid client policy");
        Self::new(Reason::InvalidPolicy)
    }

    /// The refusal of a policy without a route for a connection.
    pub fn of(source: RouteSource, target: &str) -> Self {
        match source {
            RouteSource::Invalid { reason, .. } => Self::invalid(&reason, target),
            RouteSource::NoRoute { parent } => Self {
                reason: Reason::NoRoute,
                detail: Some(no_route(None, target, &parent).to_string()),
            },
            RouteSource::Route(_) => Self::new(Reason::NoRoute),
        }
    }

    fn error(&self) -> Error {
        let error = Error::new(self.reason);
        match &self.detail {
            Some(detail) => error.detail(detail.clone()),
            None => error,
        }
    }
}
