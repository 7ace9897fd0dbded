use super::*;
use crate::{
    Reason,
    http::{ObservedRequest, client::tests::incoming},
};
use http_body_util::BodyExt;
use std::{cell::RefCell, time::Duration};
use tokio::task::LocalSet;

/// An observer that records its notifications.
#[derive(Default)]
struct Notes(RefCell<Vec<String>>);

impl ObserveRequest for Notes {
    fn data(&self, _: &ObservedRequest, len: usize, _: &Now) {
        self.0.borrow_mut().push(len.to_string());
    }

    fn end(&self, _: &ObservedRequest, end: BodyEnd<'_>, _: &Now) {
        let end = match end {
            BodyEnd::Complete(trailers) => format!("complete, trailers: {}", trailers.is_some()),
            BodyEnd::Failed(error) => format!("failed: {error}"),
            BodyEnd::Dropped => "dropped".to_owned(),
        };
        self.0.borrow_mut().push(end);
    }
}

impl Notes {
    fn take(&self) -> Vec<String> {
        self.0.take()
    }
}

async fn local(test: impl Future<Output = ()>) {
    LocalSet::new().run_until(test).await;
}

/// A client's body that is a chunk of five bytes and, if `ends`, trailers.
async fn body(ends: bool) -> RequestBody {
    let end = match ends {
        true => "0\r\nx: 1\r\n\r\n",
        false => "",
    };
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x\r\n\r\n";
    let response = incoming(&format!("{head}5\r\nhello\r\n{end}")).await;
    let upload = || Upload::new(None);
    RequestBody::new(response.into_body(), Version::HTTP_11, upload)
}

#[tokio::test(start_paused = true)]
async fn each_attempt_is_observed_and_the_end_of_the_request_is_that_of_the_last() {
    local(async {
        let notes = Rc::new(Notes::default());
        let mut first = body(true).await;
        first.observe(&notes, Instant::now());
        let second = first.replayable(100).unwrap();
        let unused = first.replayable(100).unwrap();
        let upload = first.upload().unwrap();
        first.frame().await.unwrap().unwrap();
        drop(first);
        assert_eq!(notes.take(), ["5", "dropped"]);
        assert_eq!(upload.ended(), None);
        second.collect().await.unwrap();
        assert_eq!(notes.take(), ["5", "complete, trailers: true"]);
        assert_eq!(upload.ended(), Some(Instant::now()));
        drop(unused);
        assert_eq!(notes.take(), [""; 0], "it was never sent");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_a_body_and_its_request_for_its_reason() {
    local(async {
        let notes = Rc::new(Notes::default());
        let mut body = body(false).await;
        body.observe(&notes, Instant::now());
        let start = Instant::now();
        let limit = |seconds| Deadline::new(start + Duration::from_secs(seconds), LATE);
        body.end_by(limit(2));
        body.end_by(limit(1));
        body.end_by(limit(3));
        let upload = body.upload().unwrap();
        body.frame().await.unwrap().unwrap();
        let error = body.frame().await.unwrap().unwrap_err();
        assert_eq!(start.elapsed(), Duration::from_secs(1), "the earliest");
        assert_eq!(error.reason(), LATE);
        assert_eq!(upload.failure().unwrap().reason(), LATE);
        assert_eq!(notes.take(), ["5", &format!("failed: {error}")]);
    })
    .await;
}

#[tokio::test]
async fn a_full_body_is_one_frame_and_can_be_sent_again() {
    let notes = Rc::new(Notes::default());
    let mut body = RequestBody::full("hello");
    body.observe(&notes, Instant::now());
    assert_eq!(body.size_hint().exact(), Some(5));
    let copy = body.replayable(1).unwrap();
    assert_eq!(
        body.frame().await.unwrap().unwrap().into_data().unwrap(),
        "hello"
    );
    assert!(body.is_end_stream());
    assert_eq!(notes.take(), ["5", "complete, trailers: false"]);
    let late = body.replayable(1).unwrap();
    for copy in [copy, late] {
        assert_eq!(copy.collect().await.unwrap().to_bytes(), "hello");
        assert_eq!(notes.take(), ["5", "complete, trailers: false"]);
    }
}

#[tokio::test]
async fn without_a_body_nothing_is_kept_for_observers() {
    for mut body in [RequestBody::empty(), RequestBody::full("")] {
        body.observe(&Rc::new(Notes::default()), Instant::now());
        body.end_by(Deadline::new(Instant::now(), LATE));
        assert!(body.0.is_none());
    }
}

#[test]
fn a_request_stays_small() {
    assert_eq!(size_of::<RequestBody>(), size_of::<usize>());
}

const LATE: Reason = Reason::ConnectTimeout;
