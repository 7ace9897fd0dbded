use super::*;
use crate::plan::{Answer, Cancel, Ending};

/// An exchange as planned, to be modified.
struct Story {
    case: Case,
    seen: Seen,
    attempts: Vec<Attempt>,
}

impl Story {
    fn new(method: &'static str) -> Self {
        let mut case = Case::generate(1, 1, false);
        case.version = Version::Http1;
        case.exchanges.truncate(1);
        case.service = Service::Web;
        case.depth = 1;
        let exchange = &mut case.exchanges[0];
        exchange.cancel = None;
        exchange.ask.method = method;
        exchange.answers = std::array::from_fn(|_| Answer {
            after: None,
            status: 200,
            framing: Framing::Length,
            length: 100,
            trailers: false,
            end: Ending::Keep,
            ..exchange.answers[0].clone()
        });
        let response = Response {
            status: 200,
            attempt: Some(0),
            ..Response::default()
        };
        Self {
            case,
            seen: Seen {
                response: Some(response),
                body: 100,
                end: End::Complete,
            },
            attempts: vec![attempt(AttemptEnd::Answered)],
        }
    }

    fn judge(&self) -> Result<Kind, String> {
        judge(Evidence {
            case: &self.case,
            exchange: &self.case.exchanges[0],
            seen: &self.seen,
            attempts: &self.attempts,
            explicit: true,
            may_end: false,
        })
    }

    fn response(&mut self) -> &mut Response {
        self.seen.response.as_mut().unwrap()
    }
}

fn attempt(end: AttemptEnd) -> Attempt {
    let body = Some(0);
    Attempt {
        endpoint: 0,
        body,
        end,
    }
}

/// A response made by the explicit proxy.
fn failed(reason: &str) -> Response {
    Response {
        status: 502,
        reason: Some(reason.to_owned()),
        text: format!("error: it failed\nreason: {reason}\nhint: Look at it.\n"),
        ..Response::default()
    }
}

#[test]
fn an_exchange_as_planned_is_right() {
    assert_eq!(Story::new("POST").judge(), Ok(Kind::Answered));
}

#[test]
fn a_post_that_reaches_two_endpoints_is_found() {
    let mut story = Story::new("POST");
    story.attempts.push(attempt(AttemptEnd::Answered));
    assert!(story.judge().unwrap_err().starts_with("replay"));
    story.attempts[0].end = AttemptEnd::Broken;
    assert!(story.judge().is_err(), "nor after the first broke off");
    story.attempts[0].end = AttemptEnd::Refused;
    assert_eq!(story.judge(), Ok(Kind::Answered));
}

#[test]
fn a_get_that_reaches_three_endpoints_is_found() {
    let mut story = Story::new("GET");
    story.attempts = vec![attempt(AttemptEnd::Broken); 2];
    assert_eq!(story.judge(), Ok(Kind::Answered));
    story.attempts = vec![attempt(AttemptEnd::Broken); 3];
    assert!(story.judge().is_err());
}

#[test]
fn a_clean_end_of_a_short_body_is_found() {
    let mut story = Story::new("GET");
    story.seen.body = 99;
    assert!(story.judge().unwrap_err().contains("99 bytes of 100"));
    // Even if the endpoint aborted.
    story.attempts[0].end = AttemptEnd::Broken;
    assert!(story.judge().is_err());
    story.seen.end = End::Closed(String::new());
    assert_eq!(story.judge(), Ok(Kind::CutShort));
}

#[test]
fn a_response_that_breaks_off_for_no_reason_is_found() {
    let mut story = Story::new("GET");
    story.seen.end = End::Closed(String::new());
    assert!(story.judge().is_err());
    story.seen.response = None;
    assert!(story.judge().is_err());
}

#[test]
fn another_status_or_another_attempt_is_found() {
    let mut story = Story::new("GET");
    story.response().status = 201;
    assert!(story.judge().is_err());
    let mut story = Story::new("GET");
    story.response().attempt = Some(1);
    assert!(story.judge().is_err());
}

#[test]
fn trailers_that_are_lost_or_made_up_are_found() {
    let mut story = Story::new("GET");
    let trailers = vec![(
        "x-trailer".to_owned(),
        story.case.exchanges[0].id.to_string(),
    )];
    story.response().trailers = trailers;
    assert!(story.judge().is_err());
    story.case.exchanges[0].answers[0].trailers = true;
    assert_eq!(story.judge(), Ok(Kind::Answered));
    story.response().trailers.clear();
    assert!(story.judge().is_err());
}

#[test]
fn an_error_without_a_cause_is_found() {
    let mut story = Story::new("GET");
    *story.response() = failed("connect_refused");
    assert!(story.judge().is_err());
    story.case.service = Service::Lone;
    assert!(story.judge().is_ok());
    *story.response() = failed("unexpected");
    assert!(story.judge().is_err());
}

#[test]
fn a_body_that_nobody_broke_off_and_a_head_that_was_not_late_are_found() {
    for (reason, how) in [
        ("broken_body", Abort::HalfClose),
        ("malformed_request", Abort::HalfClose),
        ("header_timeout", Abort::Stall),
    ] {
        let mut story = Story::new("POST");
        *story.response() = failed(reason);
        assert!(story.judge().is_err());
        let sending = true;
        story.case.exchanges[0].cancel = Some(Cancel {
            sending,
            at: 50,
            how,
        });
        assert_eq!(story.judge(), Ok(Kind::Failed(reason.to_owned())));
    }
}

#[test]
fn a_stream_that_was_given_to_an_endpoint_and_is_refused_is_found() {
    let mut story = Story::new("POST");
    story.case.version = Version::Http2;
    story.seen = Seen::nothing(End::Reset(Some(h2::Reason::REFUSED_STREAM)));
    assert!(story.judge().is_err());
    story.attempts[0].end = AttemptEnd::Refused;
    assert_eq!(story.judge(), Ok(Kind::Unanswered));
    story.attempts.clear();
    assert_eq!(story.judge(), Ok(Kind::Unanswered));
}

#[test]
fn a_text_that_is_missing_or_too_much_is_found() {
    let mut story = Story::new("GET");
    *story.response() = failed("connection_lost");
    assert!(story.judge().is_ok());
    story.case.exchanges[0].ask.method = "HEAD";
    assert!(story.judge().is_err());
    story.response().text.clear();
    assert!(story.judge().is_ok());
    story.case.exchanges[0].ask.method = "GET";
    assert!(story.judge().is_err());
}
