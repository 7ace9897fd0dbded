//! Stage 3: the policy of the port that a peer dialled.
//!
//! The policy is an immutable snapshot; the check for an update is one atomic load. Series, filters and decisions are looked up
//! once for a snapshot, or for a connection, and not for a request.

mod admission;
mod authority_series;
mod connection;
mod peer;
mod policy_context;
mod route_metrics;
mod scope;
mod snapshot;

pub use admission::Admission;
pub use peer::RoutePermit;
pub use policy_context::PolicyContext;
pub use snapshot::PolicySnapshot;

use linkerd_profiles::{ServerPolicy, ServerPolicyWatch};
use linkerd_proxy_core::{Error, Reason, metrics::Labels};
use std::{cell::RefCell, net::SocketAddr, rc::Rc, sync::Arc};
use tokio::sync::watch;

/// The policy of an address, as long as it is in use.
pub struct PortPolicy {
    ctx: Rc<PolicyContext>,
    addr: SocketAddr,
    /// Keeps the port in use.
    _watch: ServerPolicyWatch,
    updates: RefCell<watch::Receiver<Arc<ServerPolicy>>>,
    present: RefCell<Rc<PolicySnapshot>>,
}

impl PortPolicy {
    /// The policy of the port of `addr`. Fails as `DestinationLimit`.
    pub fn new(ctx: &Rc<PolicyContext>, addr: SocketAddr) -> Result<Self, Error> {
        let watch = ctx.server_policies.watch(addr.port());
        let watch = watch.map_err(|error| {
            Error::new(Reason::DestinationLimit).detail(format!("too many ports: {error}"))
        })?;
        let mut updates = watch.receiver();
        let policy = updates.borrow_and_update().clone();
        Ok(Self {
            present: RefCell::new(PolicySnapshot::new(ctx, addr, policy)),
            updates: RefCell::new(updates),
            ctx: ctx.clone(),
            addr,
            _watch: watch,
        })
    }

    /// The present snapshot.
    pub fn present(&self) -> Rc<PolicySnapshot> {
        self.update();
        self.present.borrow().clone()
    }

    /// Counts a request that the proxy answers itself: `inbound_http_errors_total`. Requests that are not let in are counted as
    /// denials.
    pub fn count_error(&self, error: &Error) {
        let reason = error.reason();
        tracing::debug!(reason = reason.label(), %error, hint = reason.hint(), "request failed");
        if matches!(reason, Reason::Unauthorized | Reason::NoRoute) {
            return;
        }
        let labels = Labels::new().with("error", reason.error_label());
        let labels = self.present().scope().target_labels(labels);
        self.ctx.families.inbound.http_errors.get(labels).incr();
    }

    /// Whether a snapshot is the present one.
    pub fn is_present(&self, snapshot: &Rc<PolicySnapshot>) -> bool {
        self.update();
        Rc::ptr_eq(&self.present.borrow(), snapshot)
    }

    fn update(&self) {
        let mut updates = self.updates.borrow_mut();
        if updates.has_changed().unwrap_or(false) {
            let policy = updates.borrow_and_update().clone();
            *self.present.borrow_mut() = PolicySnapshot::new(&self.ctx, self.addr, policy);
        }
    }

    /// The updates of the policy, to be awaited.
    fn updates(&self) -> watch::Receiver<Arc<ServerPolicy>> {
        let mut updates = self.updates.borrow().clone();
        updates.mark_unchanged();
        updates
    }
}
