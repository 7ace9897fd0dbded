//! The status of an endpoint: a handle beside its service.
//!
//! An endpoint's client writes the status and the balancer reads it, so that no layer between the two has to pass it on.

use crate::Reason;
use serde_json::Value;
use std::{
    cell::{Cell, OnceCell, RefCell},
    fmt,
    net::SocketAddr,
    rc::Rc,
    task::{Context, Waker},
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};

/// Whether an endpoint can take a request, and if not, why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndpointState {
    /// The endpoint can take a request.
    Ready,
    /// The first connection is being made.
    Connecting,
    /// The last connection attempt failed; the next begins at `until`.
    BackingOff(Outage),
    /// Every connection carries as many streams as its peer allows.
    StreamLimit,
    /// A circuit breaker ejected the endpoint.
    Ejected {
        /// The time of the next probe.
        until: Instant,
    },
    /// A circuit breaker probes the endpoint with one request.
    Probing,
}

/// The state of an endpoint that a circuit breaker ejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ejection {
    /// Ejected until this time.
    Until(Instant),
    /// Probed by one request, which decides whether the ejection ends.
    Probing,
}

/// An endpoint that does not accept connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    /// The start of the next attempt.
    pub until: Instant,
    /// The number of failed attempts in a row.
    pub failures: u32,
    /// The reason of the last failure.
    pub reason: Reason,
    /// The error of the last failure.
    pub error: Rc<str>,
    /// The address that was dialled, if the error names it.
    pub peer: Option<SocketAddr>,
    /// The time of the last failure.
    pub since: Instant,
}

/// The connections of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// Requests open connections as they need them.
    OnDemand,
    /// A connection has room.
    Ready,
    /// There is no connection yet.
    Connecting,
    /// No connection has room.
    StreamLimit,
}

/// The status of one endpoint. Its copies share the state.
///
/// Small until there is a detail to store: a balancer may know ten thousand endpoints that get no request.
#[derive(Clone)]
pub struct EndpointStatus(Rc<Status>);

struct Status {
    capacity: Cell<Capacity>,
    detail: OnceCell<Box<Detail>>,
}

#[derive(Default)]
struct Detail {
    outage: RefCell<Option<Outage>>,
    ejection: Cell<Option<Ejection>>,
    /// Notified when requests wait for the endpoint.
    demand: Notify,
    /// The balancer's driver.
    waker: RefCell<Option<Waker>>,
    /// Notified when the endpoint may be ready again.
    up: Notify,
    inspect: RefCell<Option<Box<dyn Fn() -> Value>>>,
}

impl EndpointStatus {
    /// The status of an endpoint with this state of connections.
    pub fn new(capacity: Capacity) -> Self {
        Self(Rc::new(Status {
            capacity: Cell::new(capacity),
            detail: OnceCell::new(),
        }))
    }

    /// The present state.
    pub fn state(&self) -> EndpointState {
        match self.ejection() {
            Some(Ejection::Until(until)) => return EndpointState::Ejected { until },
            Some(Ejection::Probing) => return EndpointState::Probing,
            None => {}
        }
        let unless_down = |state| self.outage().map_or(state, EndpointState::BackingOff);
        match self.0.capacity.get() {
            Capacity::OnDemand => unless_down(EndpointState::Ready),
            Capacity::Connecting => unless_down(EndpointState::Connecting),
            Capacity::Ready => EndpointState::Ready,
            Capacity::StreamLimit => EndpointState::StreamLimit,
        }
    }

    /// Whether the last connection attempt failed, and none may be made yet.
    pub fn is_down(&self) -> bool {
        let detail = self.0.detail.get();
        detail.is_some_and(|detail| detail.outage.borrow().is_some())
    }

    /// The outage, if the endpoint does not accept connections.
    pub fn outage(&self) -> Option<Outage> {
        self.0.detail.get()?.outage.borrow().clone()
    }

    /// Whether a breaker has ejected the endpoint. `false` once the ejection's time is over.
    pub fn is_ejected(&self) -> bool {
        self.ejection().is_some()
    }

    /// The state of the endpoint's connections.
    pub fn capacity(&self) -> Capacity {
        self.0.capacity.get()
    }

    /// Sets the state of the endpoint's connections.
    pub fn set_capacity(&self, capacity: Capacity) {
        self.0.capacity.set(capacity);
    }

    /// Sets the outage, or clears it when the endpoint may be tried.
    pub fn set_outage(&self, outage: Option<Outage>) {
        if outage.is_some() || self.0.detail.get().is_some() {
            *self.detail().outage.borrow_mut() = outage;
        }
    }

    /// Ejects the endpoint until a time, or ends its ejection.
    pub fn eject(&self, until: Option<Instant>) {
        self.detail().ejection.set(until.map(Ejection::Until));
        self.wake();
    }

    /// Notes that a probe request was sent; the endpoint gets no other request.
    pub fn probe(&self) {
        self.detail().ejection.set(Some(Ejection::Probing));
    }

    /// Notes that requests wait for the endpoint: a connection attempt that is not due soon begins now.
    pub fn wanted(&self) {
        let patient = match self.outage() {
            Some(outage) => {
                outage.since.elapsed() < HURRY || outage.until <= Instant::now() + HURRY / 10
            }
            None => true,
        };
        if !patient {
            self.detail().demand.notify_one();
        }
    }

    /// Waits until requests wait for the endpoint. Cancel safe.
    pub async fn demand(&self) {
        self.detail().demand.notified().await;
    }

    /// Registers the task to wake when the endpoint may be ready. Only the last one registered is woken: the balancer's driver.
    pub fn register(&self, cx: &Context<'_>) {
        *self.detail().waker.borrow_mut() = Some(cx.waker().clone());
    }

    /// Waits until the endpoint accepts connections, or may be tried. Any number of tasks may wait. Cancel safe.
    pub async fn up(&self) {
        loop {
            let up = self.detail().up.notified();
            if !self.is_down() {
                return;
            }
            up.await;
        }
    }

    /// Wakes all tasks that wait for the endpoint.
    pub fn wake(&self) {
        let Some(detail) = self.0.detail.get() else {
            return;
        };
        detail.up.notify_waiters();
        if let Some(waker) = detail.waker.take() {
            waker.wake();
        }
    }

    /// Sets the source of the connections' figures for `/state`.
    pub fn set_inspect(&self, inspect: impl Fn() -> Value + 'static) {
        *self.detail().inspect.borrow_mut() = Some(Box::new(inspect));
    }

    /// The connections' figures for `/state`; null before the first request.
    pub fn inspect(&self) -> Value {
        let inspect = |detail: &Detail| detail.inspect.borrow().as_ref().map(|inspect| inspect());
        let detail = self.0.detail.get();
        detail
            .and_then(|detail| inspect(detail))
            .unwrap_or(Value::Null)
    }

    /// The ejection, while it lasts.
    pub fn ejection(&self) -> Option<Ejection> {
        let ejection = self.0.detail.get()?.ejection.get()?;
        match ejection {
            Ejection::Until(until) if until <= Instant::now() => None,
            Ejection::Until(_) | Ejection::Probing => Some(ejection),
        }
    }

    fn detail(&self) -> &Detail {
        self.0.detail.get_or_init(Box::default)
    }
}

impl fmt::Debug for EndpointStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EndpointStatus")
            .field(&self.state())
            .finish()
    }
}

impl EndpointState {
    /// The state's name in `/state` and in logs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Connecting => "connecting",
            Self::BackingOff(_) => "backing off",
            Self::StreamLimit => "at stream limit",
            Self::Ejected { .. } => "ejected",
            Self::Probing => "probing",
        }
    }

    /// The time until the next attempt, if one is due.
    pub fn retry_in(&self, now: Instant) -> Option<Duration> {
        match self {
            Self::BackingOff(Outage { until, .. }) | Self::Ejected { until } => {
                Some(until.saturating_duration_since(now))
            }
            Self::Ready | Self::Connecting | Self::StreamLimit | Self::Probing => None,
        }
    }
}

/// The interval of connection attempts while requests wait.
const HURRY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn outage(until: Instant) -> Outage {
        Outage {
            until,
            failures: 1,
            reason: Reason::ConnectRefused,
            error: "refused".into(),
            peer: None,
            since: Instant::now(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn every_task_that_waits_learns_that_the_endpoint_is_up() {
        let status = EndpointStatus::new(Capacity::OnDemand);
        status.set_outage(Some(outage(Instant::now())));
        let mut waiting = [(); 3].map(|()| tokio_test::task::spawn(status.up()));
        for waits in &mut waiting {
            assert!(waits.poll().is_pending());
        }
        status.set_outage(None);
        status.wake();
        for waits in &mut waiting {
            assert!(waits.is_woken() && waits.poll().is_ready());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_ejection_ends_with_its_time() {
        let status = EndpointStatus::new(Capacity::OnDemand);
        let until = Instant::now() + HURRY;
        status.eject(Some(until));
        assert_eq!(status.state(), EndpointState::Ejected { until });
        tokio::time::advance(HURRY).await;
        assert_eq!(status.state(), EndpointState::Ready);
        status.eject(Some(until + HURRY));
        status.eject(None);
        assert_eq!(status.state(), EndpointState::Ready);
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_has_no_end_but_its_outcome() {
        let status = EndpointStatus::new(Capacity::OnDemand);
        status.probe();
        tokio::time::advance(60 * HURRY).await;
        assert_eq!(status.state(), EndpointState::Probing);
        assert!(status.is_ejected());
        status.eject(None);
        assert_eq!(status.state(), EndpointState::Ready);
    }

    #[tokio::test(start_paused = true)]
    async fn demand_is_noted_when_an_attempt_is_far_off() {
        let status = EndpointStatus::new(Capacity::OnDemand);
        status.set_outage(Some(outage(Instant::now() + 60 * HURRY)));
        let mut demand = tokio_test::task::spawn(status.demand());
        assert!(demand.poll().is_pending());
        status.wanted();
        assert!(demand.poll().is_pending(), "it was tried just now");
        tokio::time::advance(HURRY).await;
        status.wanted();
        assert!(demand.poll().is_ready());
    }
}
