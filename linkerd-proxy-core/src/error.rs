//! The one error at the seams between stages.

use crate::{
    Unavailable,
    reason::{Origin, Reason},
};
use http::{HeaderValue, StatusCode};
use std::{borrow::Cow, error::Error as StdError, fmt, net::SocketAddr, rc::Rc};

/// An error of any kind, as the source of an [`Error`].
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// A failure with its reason, classified where it arose.
///
/// Each stage that the error passes adds its [`context`](Error::context); a request that succeeds formats nothing.
pub struct Error(Box<ErrorParts>);

struct ErrorParts {
    reason: Reason,
    detail: Option<Cow<'static, str>>,
    context: Vec<String>,
    peer: Option<SocketAddr>,
    reset: Option<h2::Reason>,
    source: Option<BoxError>,
    answer: Option<Answer>,
    waited: Option<Unavailable>,
}

/// An answer that a route prescribes, in place of the reason's own status and code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: Option<StatusCode>,
    /// The gRPC code.
    pub grpc_code: Option<u16>,
    /// The target of a redirect.
    pub location: Option<HeaderValue>,
}

impl Error {
    /// An error with the reason's default text.
    pub fn new(reason: Reason) -> Self {
        Self(Box::new(ErrorParts {
            reason,
            detail: None,
            context: Vec::new(),
            peer: None,
            reset: None,
            source: None,
            answer: None,
            waited: None,
        }))
    }

    /// Sets a message in place of the reason's default text.
    pub fn detail(mut self, detail: impl Into<Cow<'static, str>>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    /// Names a stage that the error passed, such as `endpoint 10.0.0.1:80`. The outermost comes last.
    pub fn context(mut self, context: impl Into<String>) -> Self {
        self.add_context(context);
        self
    }

    /// Names a stage that the error passed, in place. Ignored for a prescribed answer, whose text must stay as it is.
    pub fn add_context(&mut self, context: impl Into<String>) {
        if self.0.answer.is_none() {
            self.0.context.push(context.into());
        }
    }

    /// Prescribes the answer to the request.
    pub fn answer(mut self, answer: Answer) -> Self {
        self.0.answer = Some(answer);
        self
    }

    /// The status of the answer.
    pub fn status(&self) -> StatusCode {
        let prescribed = self.0.answer.as_ref().and_then(|answer| answer.status);
        prescribed.unwrap_or_else(|| self.0.reason.status())
    }

    /// The gRPC code of the answer.
    pub fn grpc_code(&self) -> u16 {
        let prescribed = self.0.answer.as_ref().and_then(|answer| answer.grpc_code);
        prescribed.unwrap_or_else(|| self.0.reason.grpc_code().into())
    }

    /// The target of a redirect.
    pub fn location(&self) -> Option<&HeaderValue> {
        self.0.answer.as_ref()?.location.as_ref()
    }

    /// Names the peer that was involved.
    pub fn peer(mut self, peer: SocketAddr) -> Self {
        self.0.peer = Some(peer);
        self
    }

    /// Names the peer that was involved, unless one is named.
    pub fn or_peer(&mut self, peer: SocketAddr) {
        self.0.peer.get_or_insert(peer);
    }

    /// Sets the code of the stream reset for the client.
    pub fn reset(mut self, code: h2::Reason) -> Self {
        self.0.reset = Some(code);
        self
    }

    /// Notes the state of the endpoints while the request waited for one, until this failure: an operator looks there first.
    pub fn waited(mut self, state: Unavailable) -> Self {
        self.0.waited = Some(state);
        self
    }

    /// The next check for an operator.
    pub fn hint(&self) -> &'static str {
        self.cause().hint()
    }

    /// The side of the cause.
    pub fn origin(&self) -> Origin {
        self.cause().row().origin
    }

    /// The reason, or that for which a longer wait would have failed.
    fn cause(&self) -> Reason {
        self.0.waited.map_or(self.0.reason, Reason::Failfast)
    }

    /// Sets the cause.
    pub fn source(mut self, source: impl Into<BoxError>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// The reason of the failure.
    pub fn reason(&self) -> Reason {
        self.0.reason
    }

    /// Whether a route prescribes the answer.
    pub fn is_prescribed(&self) -> bool {
        self.0.answer.is_some()
    }

    /// The peer that was involved.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.0.peer
    }

    /// The code of the stream reset for the client.
    pub fn reset_code(&self) -> Option<h2::Reason> {
        self.0.reset
    }
}

impl From<Reason> for Error {
    fn from(reason: Reason) -> Self {
        Self::new(reason)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for context in self.0.context.iter().rev() {
            write!(f, "{context}: ")?;
        }
        match &self.0.detail {
            Some(detail) => f.write_str(detail),
            None => write!(f, "{}", self.0.reason),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("reason", &self.0.reason)
            .field("message", &self.to_string())
            .field("peer", &self.0.peer)
            .field("source", &self.0.source)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

/// A failed call, with the request if it may be sent elsewhere.
///
/// Endpoints fail this way: only they know whether a request was sent, and only a balancer knows another endpoint.
pub struct Rejected<Req> {
    /// The reason of the failure.
    pub error: Error,
    /// The request, unchanged, if it may be sent again.
    pub request: Option<Req>,
    /// The endpoint got the request: the time spent there does not count against the failfast timeout of the balancer.
    pub was_sent: bool,
    /// Notified when the request is not sent elsewhere.
    pub observer: Option<Rc<dyn ObserveRejection>>,
}

/// Observer of a request that an endpoint returned.
pub trait ObserveRejection {
    /// No other endpoint took the request: the failure is its answer.
    fn was_final(&self, error: &Error);
}

impl<Req> Rejected<Req> {
    /// A failure after which the request must not be sent again.
    pub fn lost(error: impl Into<Error>) -> Self {
        Self::new(error.into(), None)
    }

    /// A failure after which the request may be sent elsewhere.
    pub fn returned(error: impl Into<Error>, request: Req) -> Self {
        Self::new(error.into(), Some(request))
    }

    /// A failure, with the request if it may be sent elsewhere.
    pub fn new(error: Error, request: Option<Req>) -> Self {
        Self {
            error,
            request,
            was_sent: false,
            observer: None,
        }
    }

    /// Notes that the endpoint got the request.
    pub fn sent(mut self) -> Self {
        self.was_sent = true;
        self
    }

    /// The failure, once it is final: the observer is notified.
    pub fn into_final(self) -> Error {
        if let Some(observer) = self.observer {
            observer.was_final(&self.error);
        }
        self.error
    }
}

impl<Req> fmt::Debug for Rejected<Req> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rejected")
            .field("error", &self.error)
            .field("returned", &self.request.is_some())
            .finish()
    }
}

/// The first error of a type in the chain of causes.
pub fn find<'a, E: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a E> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        cause = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_reads_from_the_outside_in() {
        let error = Error::new(Reason::ConnectRefused)
            .detail("Connection refused (os error 111)")
            .context("endpoint 10.0.0.1:80")
            .context("logical service web:80");
        assert_eq!(
            error.to_string(),
            "logical service web:80: endpoint 10.0.0.1:80: Connection refused (os error 111)"
        );
    }

    #[test]
    fn without_detail_the_reason_speaks() {
        assert_eq!(Error::new(Reason::NoRoute).to_string(), "no route");
    }
}
