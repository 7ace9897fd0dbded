//! Those who measure what becomes of a response's body.

use super::BodyError;
use http::{HeaderMap, StatusCode};
use smallvec::SmallVec;
use std::{cell::Cell, rc::Rc};
use tokio::time::Instant;

/// Measures responses' bodies. One observer serves all exchanges of its layer; what differs between them it is told.
pub trait Observe {
    /// A frame of data has passed.
    fn data(&self, _exchange: &Observed, _len: usize, _now: &Now) {}

    /// The body has ended, or was dropped. Told exactly once.
    fn end(&self, exchange: &Observed, end: End<'_>, now: &Now);
}

/// What is known of an exchange.
#[derive(Clone, Copy, Debug)]
pub struct Observed {
    /// When the exchange began, for this observer.
    pub start: Instant,
    /// The response's status.
    pub status: StatusCode,
    /// The gRPC code among the response's headers.
    pub code: Option<u8>,
    /// Whether the request was gRPC's, if somebody has [said so](super::ResponseBody::answers_grpc).
    pub is_grpc: bool,
    /// Whether a frame of data has passed before.
    pub has_data: bool,
}

/// How a body ended.
#[derive(Clone, Copy, Debug)]
pub enum End<'a> {
    /// All of it has passed.
    Complete(Option<&'a HeaderMap>),
    /// It broke off.
    Failed(&'a BodyError),
    /// Nobody wanted the rest.
    Dropped,
}

/// The time of an event. The clock is read when the first observer asks.
#[derive(Debug, Default)]
pub struct Now(Cell<Option<Instant>>);

impl Now {
    /// The time.
    pub fn get(&self) -> Instant {
        let now = self.0.get().unwrap_or_else(Instant::now);
        self.0.set(Some(now));
        now
    }
}

/// The observers of one body.
pub(super) struct Observers {
    /// In the order in which they are told. As many as there are layers that measure: nothing is allocated for them.
    list: SmallVec<[(Rc<dyn Observe>, Instant); 4]>,
    status: StatusCode,
    code: Option<u8>,
    pub(super) is_grpc: bool,
    has_data: bool,
    ended: bool,
}

impl Observers {
    pub(super) fn new(status: StatusCode, code: Option<u8>) -> Self {
        Self {
            list: SmallVec::new(),
            status,
            code,
            is_grpc: false,
            has_data: false,
            ended: false,
        }
    }

    /// Adds one, told after those that are there; of an end that has been already, now.
    pub(super) fn add(&mut self, observer: Rc<dyn Observe>, start: Instant) {
        if self.ended {
            observer.end(&self.observed(start), End::Complete(None), &Now::default());
        } else {
            self.list.push((observer, start));
        }
    }

    pub(super) fn data(&mut self, len: usize, now: &Now) {
        for (observer, start) in &self.list {
            observer.data(&self.observed(*start), len, now);
        }
        self.has_data = true;
    }

    pub(super) fn end(&mut self, end: End<'_>, now: &Now) {
        self.ended = true;
        for (observer, start) in std::mem::take(&mut self.list) {
            observer.end(&self.observed(start), end, now);
        }
    }

    fn observed(&self, start: Instant) -> Observed {
        Observed {
            start,
            status: self.status,
            code: self.code,
            is_grpc: self.is_grpc,
            has_data: self.has_data,
        }
    }
}

impl Drop for Observers {
    fn drop(&mut self) {
        if !self.ended {
            self.end(End::Dropped, &Now::default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{cell::RefCell, time::Duration};

    /// Writes down what it is told, under a name.
    struct Note(&'static str, Rc<RefCell<Vec<String>>>);

    impl Observe for Note {
        fn data(&self, exchange: &Observed, len: usize, _: &Now) {
            let first = if exchange.has_data { "" } else { "first " };
            self.1.borrow_mut().push(format!("{} {first}{len}", self.0));
        }

        fn end(&self, _: &Observed, end: End<'_>, _: &Now) {
            self.1.borrow_mut().push(format!("{} {end:?}", self.0));
        }
    }

    fn observers() -> (Observers, Rc<RefCell<Vec<String>>>) {
        let notes = Rc::new(RefCell::default());
        let mut observers = Observers::new(StatusCode::OK, None);
        for name in ["a", "b"] {
            observers.add(Rc::new(Note(name, Rc::clone(&notes))), Instant::now());
        }
        (observers, notes)
    }

    #[tokio::test]
    async fn all_observers_see_each_frame_and_one_end() {
        let (mut observers, notes) = observers();
        let now = Now::default();
        observers.data(5, &now);
        observers.data(6, &now);
        observers.end(End::Complete(None), &now);
        observers.end(End::Dropped, &now);
        drop(observers);
        let expected = [
            "a first 5",
            "b first 5",
            "a 6",
            "b 6",
            "a Complete(None)",
            "b Complete(None)",
        ];
        assert_eq!(*notes.borrow(), expected);
    }

    #[tokio::test]
    async fn one_that_is_added_after_the_end_is_told_of_it() {
        let (mut observers, notes) = observers();
        observers.end(End::Complete(None), &Now::default());
        notes.borrow_mut().clear();
        observers.add(Rc::new(Note("late", notes.clone())), Instant::now());
        assert_eq!(*notes.borrow(), ["late Complete(None)"]);
    }

    #[tokio::test]
    async fn a_drop_is_an_end() {
        let (observers, notes) = observers();
        drop(observers);
        assert_eq!(*notes.borrow(), ["a Dropped", "b Dropped"]);
    }

    #[tokio::test(start_paused = true)]
    async fn observers_of_one_event_see_one_time() {
        let now = Now::default();
        let first = now.get();
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(now.get(), first);
    }
}
