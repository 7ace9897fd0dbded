//! The breakers of a balancer's endpoints, and the floor: the number of endpoints that are never ejected.

use super::machine::{Breaker, BreakerChange, BreakerState, Outcome, OutcomeKind};
use linkerd_proxy_core::{EndpointStatus, endpoint::FailureAccrual};
use rand::rngs::SmallRng;
use serde_json::{Value, json};
use std::{
    cell::{Cell, OnceCell, RefCell},
    fmt::{self, Display},
    rc::{Rc, Weak},
};
use tokio::time::Instant;

/// The breakers of one balancer.
///
/// - **Bounds**: at least `min_ready_endpoints` of its endpoints are not ejected, if there are as many. If one of these
///   leaves, the endpoint with the longest ejection so far returns.
#[derive(Clone, Debug)]
pub struct BreakerGroup(Rc<Group>);

#[derive(Debug)]
struct Group {
    /// The backend's name in logs.
    backend: String,
    rules: Rc<FailureAccrual>,
    endpoints: Cell<usize>,
    /// Ejected endpoints in the order of their ejections.
    ejected: RefCell<Vec<Weak<EndpointBreaker>>>,
    rng: RefCell<SmallRng>,
}

/// The breaker of one endpoint.
#[derive(Debug)]
pub struct EndpointBreaker {
    name: Box<str>,
    group: BreakerGroup,
    status: EndpointStatus,
    breaker: RefCell<Breaker>,
    /// The number of ejections that the floor prevented.
    withheld: Cell<u32>,
    /// Whether the endpoint has left the balancer.
    left: Cell<bool>,
    on_ejection: OnEjection,
}

/// Called when the endpoint gets no more requests. Empty without a balancer.
#[derive(Default)]
struct OnEjection(OnceCell<Box<dyn Fn()>>);

impl BreakerGroup {
    /// The breakers of the backend with this name in logs.
    pub fn new(backend: impl Into<String>, rules: FailureAccrual, rng: SmallRng) -> Self {
        Self(Rc::new(Group {
            backend: backend.into(),
            rules: Rc::new(rules),
            endpoints: Cell::new(0),
            ejected: RefCell::default(),
            rng: RefCell::new(rng),
        }))
    }

    /// The breaker of another endpoint, until it [leaves](EndpointBreaker::leave).
    pub fn breaker(&self, name: impl Display, status: EndpointStatus) -> Rc<EndpointBreaker> {
        self.0.endpoints.set(self.0.endpoints.get() + 1);
        Rc::new(EndpointBreaker {
            name: name.to_string().into(),
            group: self.clone(),
            status,
            breaker: RefCell::new(Breaker::new(self.0.rules.clone())),
            withheld: Cell::new(0),
            left: Cell::new(false),
            on_ejection: OnEjection::default(),
        })
    }

    /// Whether the floor allows an ejection that leaves `others` endpoints.
    fn is_enough(&self, others: usize) -> bool {
        others >= self.0.rules.min_ready_endpoints as usize
    }

    /// The number of endpoints that are not ejected.
    pub fn unejected(&self) -> usize {
        let ejected = self.0.ejected.borrow().len();
        self.0.endpoints.get().saturating_sub(ejected)
    }

    fn remove_ejected(&self, breaker: &EndpointBreaker) {
        let is_other = |other: &Weak<EndpointBreaker>| !std::ptr::eq(other.as_ptr(), breaker);
        self.0.ejected.borrow_mut().retain(is_other);
    }

    /// Ends as many ejections as the floor requires, the oldest first.
    fn restore_floor(&self) {
        while !self.is_enough(self.unejected()) && !self.0.ejected.borrow().is_empty() {
            let longest = self.0.ejected.borrow_mut().remove(0);
            if let Some(breaker) = longest.upgrade() {
                breaker.breaker.borrow_mut().close();
                breaker.close("too few other endpoints are left");
            }
        }
    }
}

impl EndpointBreaker {
    /// Sets the function that is called when the endpoint gets no more requests: it is ejected, or has its probe. Called while a
    /// request begins or ends: it must not touch the endpoint's service.
    pub fn on_ejection(&self, notify: impl Fn() + 'static) {
        // A balancer gives each endpoint one breaker.
        let _ = self.on_ejection.0.set(Box::new(notify));
    }

    /// Admits a request. Returns the epoch, which the request's outcome has to name.
    pub(super) fn admit(&self) -> u32 {
        let admission = self.breaker.borrow_mut().admit();
        if admission.is_probe {
            self.status.probe();
            self.on_ejection.notify();
        }
        admission.epoch
    }

    /// Whether the endpoint's retry hints are used.
    pub(super) fn respects_retry_after(&self) -> bool {
        self.group.0.rules.respects_retry_after
    }

    /// Records the outcome of a request.
    pub(super) fn record(self: &Rc<Self>, outcome: Outcome, now: Instant) {
        if self.left.get() {
            return;
        }
        let group = &self.group;
        // A probed endpoint is ejected, and so not counted in the first place.
        let is_closed = self.breaker.borrow().state() == BreakerState::Closed;
        let others = group.unejected() - usize::from(is_closed);
        let change = self.breaker.borrow_mut().record(
            outcome,
            now,
            group.is_enough(others),
            &mut *group.0.rng.borrow_mut(),
        );
        let (backend, endpoint) = (&*group.0.backend, &*self.name);
        match change {
            None => {}
            Some(BreakerChange::Opened(ejected)) => {
                let length = ejected.until.saturating_duration_since(now);
                tracing::info!(backend, endpoint, cause = %ejected.cause, ?length, "breaker opened: endpoint ejected");
                group.0.ejected.borrow_mut().push(Rc::downgrade(self));
                self.status.eject(Some(ejected.until));
                self.on_ejection.notify();
            }
            Some(BreakerChange::Reopened(ejected)) => {
                let length = ejected.until.saturating_duration_since(now);
                let failed_probes = ejected.failed_probes;
                tracing::info!(
                    backend,
                    endpoint,
                    failed_probes,
                    ?length,
                    "breaker stays open: the probe failed"
                );
                self.status.eject(Some(ejected.until));
                self.on_ejection.notify();
            }
            Some(BreakerChange::Closed) => {
                group.remove_ejected(self);
                self.close(match outcome.kind {
                    OutcomeKind::Success => "the probe succeeded",
                    _ => "too few other endpoints are left",
                });
            }
            Some(BreakerChange::Withheld(cause)) => {
                self.withheld.set(self.withheld.get().saturating_add(1));
                tracing::debug!(backend, endpoint, %cause, "breaker stays closed: too few other endpoints");
            }
        }
    }

    /// Ends a probe without an outcome, so that another request becomes the probe.
    pub(super) fn abandon(&self, epoch: u32) {
        if self.breaker.borrow_mut().abandon(epoch) {
            self.status.eject(None);
        }
    }

    /// Notes that the balancer removed the endpoint.
    pub(super) fn leave(&self) {
        if self.left.replace(true) {
            return;
        }
        let group = &self.group;
        group.0.endpoints.set(group.0.endpoints.get() - 1);
        group.remove_ejected(self);
        group.restore_floor();
    }

    /// Lets the endpoint take requests again.
    fn close(&self, cause: &str) {
        let (backend, endpoint) = (&*self.group.0.backend, &*self.name);
        tracing::info!(
            backend,
            endpoint,
            cause,
            "breaker closed: endpoint takes requests"
        );
        self.status.eject(None);
    }

    /// The breaker's state, for `/state`.
    pub fn inspect(&self, now: Instant) -> Value {
        let breaker = self.breaker.borrow();
        let mut shown = json!({ "failures_in_a_row": breaker.failures() });
        let (name, ejected) = match breaker.state() {
            BreakerState::Closed => ("closed", None),
            BreakerState::Open(ejected) => ("open", Some(ejected)),
            BreakerState::Probing(ejected) => ("probing", Some(ejected)),
        };
        shown["state"] = name.into();
        if let Some(ejected) = ejected {
            let left = ejected.until.saturating_duration_since(now);
            shown["cause"] = ejected.cause.to_string().into();
            shown["failed_probes"] = ejected.failed_probes.into();
            shown["probe_in_ms"] = (left.as_millis() as u64).into();
        }
        if self.withheld.get() > 0 {
            shown["kept_by_floor"] = self.withheld.get().into();
        }
        shown
    }
}

impl OnEjection {
    fn notify(&self) {
        if let Some(notify) = self.0.get() {
            notify();
        }
    }
}

impl fmt::Debug for OnEjection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnEjection").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
