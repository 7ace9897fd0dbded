//! Failures that a peer proxy tells of its application.

use super::proxy_status::reason_label;
use crate::{
    Reason,
    reason::{Retry, Unavailable},
};
use http::{HeaderMap, Response};

/// A failure of a peer proxy to reach its application, by which a request was not processed or may not have been. An extension
/// of the peer's response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerFailure(Reason);

impl PeerFailure {
    /// The failure that a peer's own answer tells (`proxy-status`, as [`Responder`](super::Responder) writes it), if another
    /// endpoint may do better. Overload is none: it would go around.
    pub fn told(headers: &HeaderMap) -> Option<Self> {
        let label = reason_label(headers)?;
        let reason = REASONS.iter().find(|reason| reason.label() == label)?;
        Some(Self(*reason))
    }

    /// Its reason.
    pub fn reason(self) -> Reason {
        self.0
    }

    /// Whether the request may be sent to another endpoint. One that waited for the application never reached it.
    pub fn retry(self) -> Retry {
        match self.0 {
            Reason::Failfast(_) | Reason::Unavailable(_) => Retry::Yes,
            reason => reason.retry(),
        }
    }
}

/// Responses that may be answers of a peer proxy.
pub trait PeerAnswer {
    /// The failure that it tells.
    fn peer_failure(&self) -> Option<PeerFailure>;
}

impl<B> PeerAnswer for Response<B> {
    fn peer_failure(&self) -> Option<PeerFailure> {
        self.extensions().get().copied()
    }
}

const REASONS: [Reason; 9] = [
    Reason::ConnectRefused,
    Reason::ConnectFailed,
    Reason::ConnectTimeout,
    Reason::ConnectionLost,
    Reason::UpgradedReset,
    Reason::Failfast(Unavailable::Connecting),
    Reason::Failfast(Unavailable::Unreachable),
    Reason::Unavailable(Unavailable::Connecting),
    Reason::Unavailable(Unavailable::Unreachable),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Error,
        http::{Responder, proxy_status::PROXY_STATUS},
        transport::Side,
    };
    use http::{HeaderValue, Request};

    fn told(error: Reason) -> Option<(Reason, Retry)> {
        let responder = Responder::new(&Request::new(()), Side::Inbound, true);
        let answer = responder.respond(&Error::new(error)).unwrap();
        let failure = PeerFailure::told(answer.headers())?;
        Some((failure.reason(), failure.retry()))
    }

    #[test]
    fn an_answer_tells_whether_the_application_was_reached() {
        for reason in REASONS {
            let retry = match reason {
                Reason::ConnectionLost | Reason::UpgradedReset => Retry::IfIdempotent,
                _ => Retry::Yes,
            };
            assert_eq!(told(reason), Some((reason, retry)));
        }
        for other in [
            Reason::QueueFull,
            Reason::Unauthorized,
            Reason::InvalidResponse,
        ] {
            assert_eq!(told(other), None);
        }
    }

    #[test]
    fn other_texts_tell_nothing() {
        let mut headers = HeaderMap::new();
        assert_eq!(PeerFailure::told(&headers), None);
        for text in [
            "",
            "linkerd-proxy",
            "linkerd-proxy; error=connection_refused",
            "linkerd-proxy; error=connection_refused; details=\"",
            "cdn; error=connection_refused; details=\"connect_refused\"",
            "linkerd-proxy; error=; details=\"no_such_reason\"",
        ] {
            headers.insert(PROXY_STATUS, HeaderValue::from_static(text));
            assert_eq!(PeerFailure::told(&headers), None, "{text}");
        }
    }
}
