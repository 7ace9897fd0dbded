//! Observers of a response's body.

use super::{BodyEnd, Now};
use crate::http::{ClassMatch, Upload, grpc_status};
use http::StatusCode;
use smallvec::SmallVec;
use std::rc::Rc;
use tokio::time::Instant;

/// An observer of responses' bodies. One observer serves all responses of its layer; each notification names its response.
pub trait ObserveResponse {
    /// A data frame has passed.
    fn data(&self, _response: &ObservedResponse<'_>, _len: usize, _now: &Now) {}

    /// The body has ended, or was dropped. Called exactly once for a response.
    fn end(&self, response: &ObservedResponse<'_>, end: BodyEnd<'_>, now: &Now);
}

/// The response of a notification.
#[derive(Clone, Copy, Debug)]
pub struct ObservedResponse<'a> {
    /// The time at which the exchange began, for this observer.
    pub start: Instant,
    /// The response's status.
    pub status: StatusCode,
    /// The gRPC code among the response's headers.
    pub code: Option<u8>,
    /// Whether the request was gRPC, if a layer has [set it](crate::http::ResponseBody::answers_grpc).
    pub is_grpc: bool,
    /// The class of the response by its route, if the route has classes and a layer has
    /// [set it](crate::http::ResponseBody::belongs_to).
    pub class: Option<ClassMatch>,
    /// Whether a data frame has passed before.
    pub has_data: bool,
    upload: Option<&'a Upload>,
}

impl ObservedResponse<'_> {
    /// The gRPC code after this end of the body: from the head, or else from the trailers.
    #[inline]
    pub fn grpc_code(&self, end: BodyEnd<'_>) -> Option<u8> {
        let trailers = match end {
            BodyEnd::Complete(trailers) => trailers,
            BodyEnd::Dropped | BodyEnd::Failed(_) => None,
        };
        self.code.or_else(|| trailers.and_then(grpc_status))
    }

    /// The time at which the request's body ended, `None` while it goes on. A request without a body ended when it began.
    ///
    /// For a request that was sent again, the last attempt counts. Known only if a layer observes the request's body.
    pub fn request_ended(&self) -> Option<Instant> {
        match self.upload {
            Some(upload) => upload.ended(),
            None => Some(self.start),
        }
    }
}

/// The observers of one response's body.
pub(in crate::http) struct ResponseObservers {
    /// In the order of their notification. Room for all layers that measure, without an allocation.
    list: SmallVec<[(Rc<dyn ObserveResponse>, Instant); 5]>,
    status: StatusCode,
    pub(in crate::http) code: Option<u8>,
    pub(in crate::http) is_grpc: bool,
    pub(in crate::http) class: Option<ClassMatch>,
    has_data: bool,
    ended: bool,
    /// The body of the request, if it has one.
    pub(in crate::http) upload: Option<Rc<Upload>>,
}

impl ResponseObservers {
    pub(in crate::http) fn new(status: StatusCode, code: Option<u8>) -> Self {
        Self {
            list: SmallVec::new(),
            status,
            code,
            is_grpc: false,
            class: None,
            has_data: false,
            ended: false,
            upload: None,
        }
    }

    /// Adds an observer, notified after the present ones. If the body has already ended, it is notified of the end now.
    pub(in crate::http) fn add(&mut self, observer: Rc<dyn ObserveResponse>, start: Instant) {
        if self.ended {
            let end = BodyEnd::Complete(None);
            observer.end(&self.observed(start), end, &Now::default());
        } else {
            self.list.push((observer, start));
        }
    }

    pub(in crate::http) fn data(&mut self, len: usize, now: &Now) {
        self.notify(|observer, response| observer.data(response, len, now));
        self.has_data = true;
    }

    pub(in crate::http) fn end(&mut self, end: BodyEnd<'_>, now: &Now) {
        self.ended = true;
        self.notify(|observer, response| observer.end(response, end, now));
        self.list.clear();
    }

    fn notify(&self, notify: impl Fn(&dyn ObserveResponse, &ObservedResponse<'_>)) {
        let Some((_, start)) = self.list.first() else {
            return;
        };
        let mut response = self.observed(*start);
        for (observer, start) in &self.list {
            response.start = *start;
            notify(&**observer, &response);
        }
    }

    fn observed(&self, start: Instant) -> ObservedResponse<'_> {
        ObservedResponse {
            start,
            status: self.status,
            code: self.code,
            is_grpc: self.is_grpc,
            class: self.class,
            has_data: self.has_data,
            upload: self.upload.as_deref(),
        }
    }
}

impl Drop for ResponseObservers {
    fn drop(&mut self) {
        if !self.ended {
            self.end(BodyEnd::Dropped, &Now::default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{cell::RefCell, time::Duration};

    /// An observer that records its notifications, under a name.
    struct Note(&'static str, Rc<RefCell<Vec<String>>>);

    impl ObserveResponse for Note {
        fn data(&self, response: &ObservedResponse<'_>, len: usize, _: &Now) {
            let first = if response.has_data { "" } else { "first " };
            self.1.borrow_mut().push(format!("{} {first}{len}", self.0));
        }

        fn end(&self, _: &ObservedResponse<'_>, end: BodyEnd<'_>, _: &Now) {
            self.1.borrow_mut().push(format!("{} {end:?}", self.0));
        }
    }

    fn observers() -> (ResponseObservers, Rc<RefCell<Vec<String>>>) {
        let notes = Rc::new(RefCell::default());
        let mut observers = ResponseObservers::new(StatusCode::OK, None);
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
        observers.end(BodyEnd::Complete(None), &now);
        observers.end(BodyEnd::Dropped, &now);
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
    async fn one_that_is_added_after_the_end_is_notified_of_it() {
        let (mut observers, notes) = observers();
        observers.end(BodyEnd::Complete(None), &Now::default());
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
    async fn a_request_without_a_body_ended_when_it_began_and_another_when_its_body_did() {
        let start = Instant::now();
        let mut observers = ResponseObservers::new(StatusCode::OK, None);
        assert_eq!(observers.observed(start).request_ended(), Some(start));
        let upload = Rc::new(Upload::new(None));
        observers.upload = Some(upload.clone());
        assert_eq!(observers.observed(start).request_ended(), None);
        tokio::time::advance(Duration::from_secs(1)).await;
        upload.end(Instant::now());
        let ended = observers.observed(start).request_ended();
        assert_eq!(ended, Some(start + Duration::from_secs(1)));
    }
}
