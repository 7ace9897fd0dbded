//! Notes of the stages about a request.

use crate::{metrics::LabelSet, tls::Identity, trace::RequestTrace};
use std::{
    cell::{Cell, Ref, RefCell},
    net::SocketAddr,
    rc::Rc,
    time::Duration,
};
use tokio::time::Instant;

/// Notes of the stages about a request, for its line of the access log, for taps and for its spans. Shared by all attempts.
///
/// Without an access log and without a tap, a request that is not sampled has no notes, and a stage pays one comparison.
#[derive(Debug, Default)]
pub struct RequestNotes {
    way: RefCell<RequestWay>,
    sent: Cell<u32>,
    returned: Cell<u32>,
    discovered: Cell<Option<(Instant, Duration)>>,
    first_sent: Cell<Option<Instant>>,
    connecting: Cell<Option<Instant>>,
    connect: Cell<Option<Duration>>,
    wants_labels: Cell<bool>,
    route_labels: RefCell<Option<LabelSet>>,
    endpoint_labels: RefCell<Option<LabelSet>>,
    trace: Option<Box<RequestTrace>>,
}

/// The path of a request's last attempt through the proxy.
#[derive(Clone, Debug, Default)]
pub struct RequestWay {
    /// The route.
    pub route: Option<Rc<str>>,
    /// The backend.
    pub backend: Option<Rc<str>>,
    /// The endpoint.
    pub endpoint: Option<SocketAddr>,
    /// The identity of the endpoint, if the connection is encrypted.
    pub identity: Option<Identity>,
}

impl RequestNotes {
    /// Asks the stages for the labels of the route and of the endpoint.
    pub fn want_labels(&self) {
        self.wants_labels.set(true);
    }

    /// Notes of a sampled request.
    pub fn traced(trace: RequestTrace) -> Self {
        Self {
            trace: Some(Box::new(trace)),
            ..Self::default()
        }
    }

    /// The trace of the request, if it is sampled.
    pub fn trace(&self) -> Option<&RequestTrace> {
        self.trace.as_deref()
    }

    /// Notes that the request's destination is known at `now`, after `wait`.
    pub fn discovered(&self, now: Instant, wait: Duration) {
        self.discovered.set(Some((now, wait)));
    }

    /// Notes the route of the request.
    pub fn of_route(&self, name: &Rc<str>) {
        self.way.borrow_mut().route = Some(name.clone());
    }

    /// Notes the labels of the route, if they are wanted.
    #[inline]
    pub fn of_route_labels(&self, labels: &LabelSet) {
        if self.wants_labels.get() {
            *self.route_labels.borrow_mut() = Some(labels.clone());
        }
    }

    /// Notes the labels of the endpoint of the present attempt, if they are wanted.
    #[inline]
    pub fn of_endpoint_labels(&self, labels: &LabelSet) {
        if self.wants_labels.get() {
            *self.endpoint_labels.borrow_mut() = Some(labels.clone());
        }
    }

    /// Notes the backend of the present attempt.
    pub fn of_backend(&self, name: &Rc<str>) {
        self.way.borrow_mut().backend = Some(name.clone());
    }

    /// Notes that an attempt, which began at `now`, is given to an endpoint.
    pub fn send_to(&self, endpoint: SocketAddr, now: Instant) {
        let mut way = self.way.borrow_mut();
        (way.endpoint, way.identity) = (Some(endpoint), None);
        self.sent.set(self.sent.get().saturating_add(1));
        if self.first_sent.get().is_none() {
            self.first_sent.set(Some(now));
        }
    }

    /// Notes the identity of the endpoint of the present attempt.
    pub fn of_endpoint(&self, identity: &Identity) {
        self.way.borrow_mut().identity = Some(identity.clone());
    }

    /// Notes that an endpoint returned the request.
    pub fn give_back(&self) {
        self.returned.set(self.returned.get().saturating_add(1));
    }

    /// Notes that a connection is opened for the request.
    pub fn begin_connect(&self) {
        self.connecting.set(Some(Instant::now()));
    }

    /// Notes the end of the connection attempt, in success or failure.
    pub fn end_connect(&self) {
        if let Some(began) = self.connecting.take() {
            let before = self.connect.get().unwrap_or_default();
            self.connect.set(Some(before + began.elapsed()));
        }
    }

    /// The path of the last attempt.
    pub fn way(&self) -> Ref<'_, RequestWay> {
        self.way.borrow()
    }

    /// The route of the request.
    pub fn route(&self) -> Option<Rc<str>> {
        self.way.borrow().route.clone()
    }

    /// The labels of the route, if they are wanted.
    pub fn route_labels(&self) -> Option<LabelSet> {
        self.route_labels.borrow().clone()
    }

    /// The labels of the endpoint of the last attempt, if they are wanted.
    pub fn endpoint_labels(&self) -> Option<LabelSet> {
        self.endpoint_labels.borrow().clone()
    }

    /// The backend of the last attempt.
    pub fn backend(&self) -> Option<Rc<str>> {
        self.way.borrow().backend.clone()
    }

    /// The endpoint of the last attempt.
    pub fn endpoint(&self) -> Option<SocketAddr> {
        self.way.borrow().endpoint
    }

    /// The number of times that the request was given to an endpoint.
    pub fn sent(&self) -> u32 {
        self.sent.get()
    }

    /// The number of times that endpoints returned the request.
    pub fn returned(&self) -> u32 {
        self.returned.get()
    }

    /// When the destination was known, and the wait for it; `None` if it is the destination of the previous request.
    pub fn discovery(&self) -> Option<(Instant, Duration)> {
        self.discovered.get()
    }

    /// The start of the first attempt.
    pub fn first_sent(&self) -> Option<Instant> {
        self.first_sent.get()
    }

    /// The time spent on opening connections for the request; `None` if open ones were used.
    pub fn connect(&self) -> Option<Duration> {
        self.connect.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Labels;

    #[tokio::test(start_paused = true)]
    async fn the_last_endpoint_the_first_attempt_and_the_sum_of_connects_are_known() {
        let notes = RequestNotes::default();
        let start = Instant::now();
        let addr = |port| SocketAddr::from(([10, 0, 0, 1], port));
        for port in [1, 2] {
            let now = Instant::now();
            notes.send_to(addr(port), now);
            notes.begin_connect();
            tokio::time::advance(Duration::from_secs(1)).await;
            notes.end_connect();
        }
        notes.give_back();
        assert_eq!(notes.endpoint(), Some(addr(2)));
        assert_eq!((notes.sent(), notes.returned()), (2, 1));
        assert_eq!(notes.first_sent(), Some(start));
        assert_eq!(notes.connect(), Some(Duration::from_secs(2)));
    }

    #[test]
    fn labels_are_kept_for_those_who_want_them() {
        let labels = LabelSet::from(Labels::new().with("pod", "web-1"));
        let notes = RequestNotes::default();
        notes.of_endpoint_labels(&labels);
        assert_eq!(notes.endpoint_labels(), None);
        notes.want_labels();
        notes.of_endpoint_labels(&labels);
        notes.of_route_labels(&labels);
        assert_eq!(notes.endpoint_labels(), Some(labels.clone()));
        assert_eq!(notes.route_labels(), Some(labels));
    }

    #[test]
    fn an_identity_is_that_of_the_last_attempt() {
        let notes = RequestNotes::default();
        let now = Instant::now();
        let addr = SocketAddr::from(([10, 0, 0, 1], 1));
        notes.send_to(addr, now);
        notes.of_endpoint(&"web.shop".parse().unwrap());
        assert!(notes.way().identity.is_some());
        notes.send_to(addr, now);
        assert_eq!(notes.way().identity, None);
    }
}
