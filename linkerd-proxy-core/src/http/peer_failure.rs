//! Failures reported by a peer proxy.

use super::proxy_status::reason_label;
use crate::{
    Reason,
    reason::{ALL, Retry, Unavailable},
};
use http::{HeaderMap, HeaderValue, Response};

/// A failure that a peer proxy answers itself: its application was not reached, or the request was refused before. An
/// extension of the peer's response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerFailure {
    reason: Reason,
    /// The peer's text.
    text: HeaderValue,
}

impl PeerFailure {
    /// The failure reported by a peer's own answer (`proxy-status`, as [`Responder`](super::Responder) writes it); `text` is its
    /// `l5d-proxy-error`.
    pub fn told(headers: &HeaderMap, text: HeaderValue) -> Option<Self> {
        let label = reason_label(headers)?;
        let reason = ALL.iter().find(|reason| reason.label() == label)?;
        let reason = *reason;
        Some(Self { reason, text })
    }

    /// The reason.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// The reason, and a text that names the endpoint's proxy as its source.
    pub fn describe(&self) -> (Reason, String) {
        let text = String::from_utf8_lossy(self.text.as_bytes());
        (self.reason, format!("told by the endpoint's proxy: {text}"))
    }

    /// Whether another endpoint may get the request. A request that failed while it waited for the application never reached it.
    /// An overload is not retried: the request would go from endpoint to endpoint.
    pub fn retry(&self) -> Retry {
        match self.reason {
            reason if !UNREACHED.contains(&reason) => Retry::No,
            Reason::Failfast(_) | Reason::Unavailable(_) => Retry::Yes,
            reason => reason.retry(),
        }
    }
}

/// Marks a response with which the client's connection ends: the proxy of a forwarded endpoint asks for it
/// (`l5d-proxy-connection: close`). An extension of the response.
#[derive(Clone, Copy, Debug)]
pub struct CloseClient;

/// Responses that may be answers of a peer proxy.
pub trait PeerAnswer {
    /// The reported failure.
    fn peer_failure(&self) -> Option<&PeerFailure>;
}

impl<B> PeerAnswer for Response<B> {
    fn peer_failure(&self) -> Option<&PeerFailure> {
        self.extensions().get()
    }
}

/// The application was not reached, or was lost.
const UNREACHED: [Reason; 9] = [
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
    use http::Request;

    fn told(error: Reason) -> Option<(Reason, Retry)> {
        let responder = Responder::new(&Request::new(()), Side::Inbound, true);
        let answer = responder.respond(&Error::new(error)).unwrap();
        let text = HeaderValue::from_static("");
        let failure = PeerFailure::told(answer.headers(), text)?;
        Some((failure.reason(), failure.retry()))
    }

    #[test]
    fn an_answer_tells_whether_the_application_was_reached() {
        for reason in UNREACHED {
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
            assert_eq!(told(other), Some((other, Retry::No)));
        }
    }

    #[test]
    fn other_texts_tell_nothing() {
        let empty = HeaderValue::from_static("");
        let mut headers = HeaderMap::new();
        assert_eq!(PeerFailure::told(&headers, empty.clone()), None);
        for text in [
            "",
            "linkerd-proxy",
            "linkerd-proxy; error=connection_refused",
            "linkerd-proxy; error=connection_refused; details=\"",
            "cdn; error=connection_refused; details=\"connect_refused\"",
            "linkerd-proxy; error=; details=\"no_such_reason\"",
        ] {
            headers.insert(PROXY_STATUS, HeaderValue::from_static(text));
            let told = PeerFailure::told(&headers, empty.clone());
            assert_eq!(told, None, "{text}");
        }
    }
}
