//! The oracle: whether a client's view of an exchange is valid, given the endpoints' views.

use crate::{
    client::{End, Response, Seen},
    ledger::{Attempt, AttemptEnd, check_replay},
    plan::{Abort, Case, Exchange, Framing, Service, Version},
};

#[cfg(test)]
mod tests;

/// A valid exchange.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The endpoint's complete response.
    Answered,
    /// The same, on the second attempt or later.
    AnsweredAgain,
    /// The proxy's own response.
    Failed(String),
    /// A response that was recognisably cut short.
    CutShort,
    /// The connection ended without a response, after one that may end it, or a stream was reset.
    Unanswered,
    /// The client gave up.
    Cancelled,
    /// The client did not send the request.
    Unsent,
}

/// One exchange with all evidence.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    pub case: &'a Case,
    pub exchange: &'a Exchange,
    pub seen: &'a Seen,
    pub attempts: &'a [Attempt],
    /// Whether the proxy's own responses carry their reason.
    pub explicit: bool,
    /// Whether the connection may end after the exchange before this one.
    pub may_end: bool,
}

/// The kind of an exchange, or the reason why it is a violation.
pub fn judge(evidence: Evidence<'_>) -> Result<Kind, String> {
    let Evidence {
        seen,
        attempts,
        exchange,
        ..
    } = evidence;
    check_replay(exchange, attempts)?;
    if let Some(Response {
        attempt: Some(number),
        status,
        ..
    }) = &seen.response
    {
        let planned = exchange.answer(*number);
        if attempts.len() <= *number {
            return Err(format!(
                "a response to attempt {number}, which no endpoint saw"
            ));
        }
        if planned.status != *status {
            return Err(format!("status {status} instead of {}", planned.status));
        }
    }
    match (&seen.end, &seen.response) {
        (End::Wrong(wrong), _) => Err(wrong.clone()),
        (End::Hung, _) => Err("nothing comes, and the connection stays".to_owned()),
        (End::Cancelled, _) => Ok(Kind::Cancelled),
        (End::Skipped, _) => match evidence.may_end {
            true => Ok(Kind::Unsent),
            false => Err("the connection ended before it, for no reason".to_owned()),
        },
        (End::Complete, Some(response)) => evidence.complete(response),
        (End::Complete, None) => Err("complete without a head".to_owned()),
        (End::Closed(_) | End::Reset(_), Some(response)) => evidence.cut_short(response),
        (End::Closed(_) | End::Reset(_), None) => evidence.unanswered(),
    }
}

/// Whether an HTTP/2 connection to one target may refuse further requests: some of the proxy's own responses end it.
/// The explicit proxy serves requests to other targets on it, and keeps it.
pub fn may_go_away(seen: &[Seen]) -> bool {
    let failed = |response: &Response| response.attempt.is_none();
    // The proxy's own response may have been the one to an aborted request.
    seen.iter()
        .any(|seen| seen.end == End::Cancelled || seen.response.as_ref().is_some_and(failed))
}

/// Whether an HTTP/1 connection may end after an exchange.
pub fn may_end(exchange: &Exchange, seen: &Seen, attempts: &[Attempt]) -> bool {
    let early = (0..attempts.len()).any(|number| exchange.answer(number).after.is_some());
    // The rest of an unwanted body is read for a short time only.
    let unread =
        |response: &Response| response.attempt.is_none() && exchange.ask.framing != Framing::None;
    let ends = |response: &Response| response.closes || unread(response);
    seen.end != End::Complete
        || exchange.ask.close
        || exchange.ask.expect
        || exchange.cancel.is_some()
        || early
        || seen.response.as_ref().is_some_and(ends)
}

impl Evidence<'_> {
    fn complete(self, response: &Response) -> Result<Kind, String> {
        let exchange = self.exchange;
        let Some(number) = response.attempt else {
            return self.failed(response);
        };
        let answer = exchange.answer(number);
        if self.seen.body != answer.length as u64 {
            let (came, planned) = (self.seen.body, answer.length);
            return Err(format!(
                "the response ends well after {came} bytes of {planned}"
            ));
        }
        let id = exchange.id.to_string();
        let trailers = &response.trailers[..];
        let right = match trailers {
            [(name, value)] => answer.trailers && name == "x-trailer" && *value == id,
            _ => !answer.trailers && trailers.is_empty(),
        };
        if !right {
            return Err(format!(
                "trailers {trailers:?}, planned: {}",
                answer.trailers
            ));
        }
        match number {
            0 => Ok(Kind::Answered),
            _ => Ok(Kind::AnsweredAgain),
        }
    }

    /// The kind of the proxy's own response, which must have a cause.
    fn failed(self, response: &Response) -> Result<Kind, String> {
        let reason = response.reason.clone().unwrap_or_default();
        let caused = match reason.as_str() {
            "connect_refused" | "connect_failed" => self.case.service == Service::Lone,
            reason if reason.starts_with("failfast_") || reason.starts_with("unavailable_") => {
                self.case.service == Service::Lone
            }
            "invalid_request" => self.gives_up(Abort::HalfClose),
            "broken_body" => self.gives_up(Abort::HalfClose),
            "malformed_request" => self.gives_up(Abort::HalfClose),
            "header_timeout" => self.gives_up(Abort::Stall),
            // An endpoint that stops, or closes an idle connection, leaves no other trace; the run counts these.
            "connection_lost" => true,
            "invalid_response" => self.broken(),
            "stream_reset" | "stream_refused" | "upgraded_reset" => self.http2_endpoint(),
            "untold" => match response.status {
                400 => self.gives_up(Abort::HalfClose),
                status => matches!(status, 502..=504),
            },
            // The plan causes no other reasons, such as invalid_framing or descriptor_limit.
            _ => false,
        };
        if !caused {
            return Err(format!("{} {reason} for no reason", response.status));
        }
        self.check_text(&response.text, &reason)?;
        Ok(Kind::Failed(reason))
    }

    /// Checks the text of the explicit proxy's own responses, which is absent only for HEAD, and where a head is so late that its
    /// method is not known.
    fn check_text(self, text: &str, reason: &str) -> Result<(), String> {
        let has_text = self.explicit && self.exchange.ask.method != "HEAD";
        let lines: Vec<_> = text.lines().collect();
        let is_right = match lines[..] {
            [] => !has_text || reason == "header_timeout",
            [error, why, hint] => {
                has_text
                    && error.starts_with("error: ")
                    && why == format!("reason: {reason}")
                    && hint.starts_with("hint: ")
            }
            _ => false,
        };
        match is_right {
            true => Ok(()),
            false => Err(format!("the text of {reason} is {text:?}")),
        }
    }

    /// Whether the client aborts within this request, in this way.
    fn gives_up(self, how: Abort) -> bool {
        let cancel = self.exchange.cancel.filter(|cancel| cancel.sending);
        cancel.is_some_and(|cancel| cancel.how == how)
    }

    /// Whether the client closes its side in this request or in a later one, which may have begun already.
    fn half_closes(self) -> bool {
        let from_here = self
            .case
            .exchanges
            .iter()
            .skip_while(|other| other.id != self.exchange.id);
        let mut cancels = from_here.filter_map(|exchange| exchange.cancel);
        cancels.any(|cancel| cancel.sending && cancel.how == Abort::HalfClose)
    }

    fn cut_short(self, response: &Response) -> Result<Kind, String> {
        let Some(number) = response.attempt else {
            return Err("the proxy's own response is cut short".to_owned());
        };
        // A body that the client does not finish, or that is not read, ends the connection.
        let torn = self.half_closes() || self.exchange.answer(number).after.is_some();
        let broken = matches!(
            self.attempts[number].end,
            AttemptEnd::Broken | AttemptEnd::Left
        );
        match broken || torn {
            true => Ok(Kind::CutShort),
            false => Err("the response is cut short for no reason".to_owned()),
        }
    }

    fn unanswered(self) -> Result<Kind, String> {
        let explained = match self.case.version {
            Version::Http1 => self.may_end || self.half_closes(),
            // A request seen by an endpoint is answered, or its stream is reset with the endpoint's code.
            Version::Http2 => match self.seen.end {
                // A stopped endpoint refuses the stream: the request may be sent again, unless it was processed.
                End::Reset(Some(h2::Reason::REFUSED_STREAM)) => {
                    let mut attempts = self.attempts.iter();
                    self.exchange.ask.is_idempotent()
                        || attempts.all(|attempt| attempt.end == AttemptEnd::Refused)
                }
                End::Reset(_) if self.broken() => true,
                _ => self.may_end && self.attempts.is_empty(),
            },
        };
        match explained {
            true => Ok(Kind::Unanswered),
            false => Err(format!("no response: {:?}", self.seen.end)),
        }
    }

    /// Whether the response reports a lost endpoint although none aborted: an idle connection was closed.
    pub fn lost_unseen(self) -> bool {
        let reason = self
            .seen
            .response
            .as_ref()
            .and_then(|response| response.reason.as_deref());
        matches!(reason, Some("connection_lost" | "untold"))
            && self.case.service != Service::Lone
            && !self.broken()
    }

    fn broken(self) -> bool {
        let broken =
            |attempt: &Attempt| matches!(attempt.end, AttemptEnd::Broken | AttemptEnd::Refused);
        self.attempts.iter().any(broken)
    }

    fn http2_endpoint(self) -> bool {
        self.case.version == Version::Http2 || self.case.service == Service::Carried
    }
}
