//! An attempt to send a sampled request to an endpoint, while it lasts.

use super::ids::SpanId;
use crate::{Error, Reason, tls::Identity};
use http::StatusCode;
use std::{
    cell::{Cell, RefCell},
    net::SocketAddr,
    rc::Rc,
    time::Duration,
};
use tokio::time::Instant;

/// The client span of an attempt, while it lasts.
#[derive(Debug)]
pub struct AttemptSpan {
    /// The id, which is the parent of the endpoint's span.
    pub id: SpanId,
    /// The time at which the endpoint got the request.
    pub start: Instant,
    /// The time that the request waited for an endpoint before, if it did.
    pub waited: Option<Duration>,
    /// The endpoint, or the application.
    pub endpoint: Option<SocketAddr>,
    /// The backend of the endpoint.
    pub backend: Option<Rc<str>>,
    identity: RefCell<Option<Identity>>,
    connect_began: Cell<Option<Instant>>,
    connect: Cell<Option<(Instant, Instant)>>,
    head: Cell<Option<(Instant, StatusCode)>>,
    end: RefCell<Option<AttemptEnd>>,
}

/// The end of an attempt.
#[derive(Clone, Debug)]
pub struct AttemptEnd {
    /// The time.
    pub at: Instant,
    /// Success or failure.
    pub outcome: SpanOutcome,
    /// The gRPC code of the response, if there is one.
    pub grpc_code: Option<u8>,
    /// The cause, if the proxy knows it, and its message.
    pub failure: Option<(Reason, String)>,
}

/// Success or failure of an exchange or an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanOutcome {
    /// A complete response that is no failure.
    Success,
    /// No response, or a failed one.
    Failure,
    /// The receiver gave up: the client, or a stage that had another response first.
    Cancelled,
}

impl SpanOutcome {
    /// The name in an attribute, the same as in the access log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Cancelled => "cancelled",
        }
    }
}

impl AttemptSpan {
    /// An attempt that begins at `start`.
    pub(super) fn new(
        id: SpanId,
        start: Instant,
        waited: Option<Duration>,
        endpoint: Option<SocketAddr>,
        backend: Option<Rc<str>>,
    ) -> Self {
        Self {
            id,
            start,
            waited,
            endpoint,
            backend,
            identity: RefCell::default(),
            connect_began: Cell::default(),
            connect: Cell::default(),
            head: Cell::default(),
            end: RefCell::default(),
        }
    }

    /// Notes the identity of the endpoint.
    pub fn of_endpoint(&self, identity: &Identity) {
        *self.identity.borrow_mut() = Some(identity.clone());
    }

    /// Notes that a connection is opened for the request.
    pub fn begin_connect(&self) {
        self.connect_began.set(Some(Instant::now()));
    }

    /// Notes the end of the connection attempt, in success or failure.
    pub fn end_connect(&self) {
        if let Some(began) = self.connect_began.take() {
            self.connect.set(Some((began, Instant::now())));
        }
    }

    /// Notes the head of the response.
    pub fn answer(&self, status: StatusCode) {
        self.head.set(Some((Instant::now(), status)));
    }

    /// Notes the end of the attempt. Only the first one counts.
    pub fn finish(&self, end: AttemptEnd) {
        self.end.borrow_mut().get_or_insert(end);
    }

    /// Ends the attempt by an error.
    pub fn fail(&self, error: &Error) {
        self.finish(AttemptEnd {
            at: Instant::now(),
            outcome: SpanOutcome::Failure,
            grpc_code: None,
            failure: Some((error.reason(), error.to_string())),
        });
    }

    /// Ends the attempt without a response: ended by a timeout of its route, or replaced by another response.
    pub fn give_up(&self, has_timed_out: bool) {
        if self.head.get().is_some() {
            return;
        }
        self.finish(AttemptEnd {
            at: Instant::now(),
            outcome: match has_timed_out {
                true => SpanOutcome::Failure,
                false => SpanOutcome::Cancelled,
            },
            grpc_code: None,
            failure: None,
        });
    }

    /// The identity of the endpoint, if the connection is encrypted.
    pub fn identity(&self) -> Option<Identity> {
        self.identity.borrow().clone()
    }

    /// Start and end of the last connection attempt for the request.
    pub fn connect(&self) -> Option<(Instant, Instant)> {
        self.connect.get()
    }

    /// Time and status of the head of the response.
    pub fn head(&self) -> Option<(Instant, StatusCode)> {
        self.head.get()
    }

    /// The end, `None` while the attempt goes on.
    pub fn end(&self) -> Option<AttemptEnd> {
        self.end.borrow().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt() -> AttemptSpan {
        let id = SpanId::new([1; 8]).unwrap();
        AttemptSpan::new(id, Instant::now(), None, None, None)
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_end_counts() {
        let attempt = attempt();
        attempt.fail(&Error::new(Reason::ConnectRefused));
        attempt.give_up(false);
        let end = attempt.end().unwrap();
        assert_eq!(end.outcome, SpanOutcome::Failure);
        assert_eq!(end.failure.unwrap().0, Reason::ConnectRefused);
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_with_a_response_ends_with_its_body() {
        let answered = attempt();
        answered.answer(StatusCode::OK);
        answered.give_up(false);
        assert!(answered.end().is_none());
        let (timed_out, hedged) = (attempt(), attempt());
        timed_out.give_up(true);
        hedged.give_up(false);
        assert_eq!(timed_out.end().unwrap().outcome, SpanOutcome::Failure);
        assert_eq!(hedged.end().unwrap().outcome, SpanOutcome::Cancelled);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connect_has_a_beginning_and_an_end() {
        let attempt = attempt();
        attempt.end_connect();
        assert_eq!(attempt.connect(), None);
        attempt.begin_connect();
        tokio::time::advance(Duration::from_secs(1)).await;
        attempt.end_connect();
        let (began, ended) = attempt.connect().unwrap();
        assert_eq!(ended - began, Duration::from_secs(1));
    }
}
