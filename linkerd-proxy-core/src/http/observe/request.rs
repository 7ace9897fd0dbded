//! Observers of a request's body.

use super::{BodyEnd, Now};
use smallvec::SmallVec;
use std::rc::Rc;
use tokio::time::Instant;

/// An observer of requests' bodies. One observer serves all requests of its layer; each notification names its request.
///
/// Notified for each attempt to send an observed request: if the body is sent twice, its frames pass twice, and its end comes
/// twice.
pub trait ObserveRequest {
    /// A data frame has passed.
    fn data(&self, _request: &ObservedRequest, _len: usize, _now: &Now) {}

    /// The body has ended, or was dropped half-way. Called at most once for an attempt, and not at all for an attempt that did
    /// not begin to send the body.
    fn end(&self, _request: &ObservedRequest, _end: BodyEnd<'_>, _now: &Now) {}
}

/// The request of a notification.
#[derive(Clone, Copy, Debug)]
pub struct ObservedRequest {
    /// The time at which the exchange began, for this observer.
    pub start: Instant,
    /// Whether a data frame has passed before.
    pub has_data: bool,
}

/// The observers of one attempt to send a request's body.
#[derive(Default)]
pub(in crate::http) struct RequestObservers {
    /// Observers in the order of their notification.
    list: SmallVec<[(Rc<dyn ObserveRequest>, Instant); 2]>,
    phase: Phase,
    has_data: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    New,
    Begun,
    Ended,
}

impl RequestObservers {
    /// The same observers, for another attempt.
    pub(in crate::http) fn another(&self) -> Self {
        Self {
            list: self.list.clone(),
            ..Self::default()
        }
    }

    pub(in crate::http) fn add(&mut self, observer: Rc<dyn ObserveRequest>, start: Instant) {
        self.list.push((observer, start));
    }

    /// The body is being sent.
    pub(in crate::http) fn begin(&mut self) {
        if self.phase == Phase::New {
            self.phase = Phase::Begun;
        }
    }

    pub(in crate::http) fn data(&mut self, len: usize, now: &Now) {
        for (observer, start) in &self.list {
            observer.data(&self.observed(*start), len, now);
        }
        self.has_data = true;
    }

    pub(in crate::http) fn end(&mut self, end: BodyEnd<'_>, now: &Now) {
        if self.phase == Phase::Ended {
            return;
        }
        self.phase = Phase::Ended;
        for (observer, start) in &self.list {
            observer.end(&self.observed(*start), end, now);
        }
    }

    fn observed(&self, start: Instant) -> ObservedRequest {
        ObservedRequest {
            start,
            has_data: self.has_data,
        }
    }
}

impl Drop for RequestObservers {
    fn drop(&mut self) {
        if self.phase == Phase::Begun {
            self.end(BodyEnd::Dropped, &Now::default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// An observer that records its notifications.
    #[derive(Default)]
    struct Notes(RefCell<Vec<String>>);

    impl ObserveRequest for Notes {
        fn data(&self, request: &ObservedRequest, len: usize, _: &Now) {
            let first = if request.has_data { "" } else { "first " };
            self.0.borrow_mut().push(format!("{first}{len}"));
        }

        fn end(&self, _: &ObservedRequest, end: BodyEnd<'_>, _: &Now) {
            self.0.borrow_mut().push(format!("{end:?}"));
        }
    }

    fn observers() -> (RequestObservers, Rc<Notes>) {
        let notes = Rc::new(Notes::default());
        let mut observers = RequestObservers::default();
        observers.add(notes.clone(), Instant::now());
        (observers, notes)
    }

    #[tokio::test]
    async fn an_attempt_that_did_not_begin_has_no_end() {
        let (observers, notes) = observers();
        drop(observers.another());
        drop(observers);
        assert!(notes.0.borrow().is_empty());
    }

    #[tokio::test]
    async fn each_attempt_has_its_own_frames_and_its_own_end() {
        let (mut first, notes) = observers();
        let mut second = first.another();
        first.begin();
        first.data(5, &Now::default());
        drop(first);
        second.begin();
        second.data(5, &Now::default());
        second.end(BodyEnd::Complete(None), &Now::default());
        drop(second);
        let expected = ["first 5", "Dropped", "first 5", "Complete(None)"];
        assert_eq!(*notes.0.borrow(), expected);
    }
}
