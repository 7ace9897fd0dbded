//! Errors of serving a connection.

use crate::{
    Error, Reason,
    http::half_sent::{HalfSentBound, HalfSentError},
};
use std::{error::Error as _, time::Duration};

/// The error that ended a server connection.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The protocol or the connection failed.
    #[error(transparent)]
    Http(#[from] hyper::Error),
    /// The codec refused the head of a request, for this reason.
    #[error("{1}")]
    Refused(Reason, #[source] hyper::Error),
    /// The client ended its side, and took nothing of the response since.
    #[error("the client ended its side, and no byte of a response was sent for {0:?}")]
    ClientLeft(Duration),
    /// The client's connection failed while a response was awaited.
    #[error("the client's connection failed: {0}")]
    ClientFailed(#[source] std::io::Error),
    /// The client did not complete its headers in time.
    #[error("the request's headers took longer than {0:?}")]
    HeaderTimeout(Duration),
    /// Later requests needed the room of half-sent ones.
    #[error("more requests are half sent than there is room for: {0}")]
    HalfSentLimit(HalfSentBound),
}

impl ServeError {
    /// The codec's refusal of a head with this status.
    pub(super) fn refused(status: u16, error: hyper::Error) -> Self {
        Self::Refused(refusal_reason(status), error)
    }

    /// The failure, if no exchange has counted it: a request that the codec refused, or a response that it could not write. A
    /// client that broke off is no failure.
    pub fn failure(&self) -> Option<Error> {
        match self {
            Self::HeaderTimeout(_) => {
                Some(Error::new(Reason::HeaderTimeout).detail(self.to_string()))
            }
            Self::Refused(reason, error) => Some(Error::new(*reason).detail(error.to_string())),
            Self::Http(error) if error.is_parse() => {
                let status = if error.is_parse_too_large() { 431 } else { 400 };
                Some(Error::new(refusal_reason(status)).detail(error.to_string()))
            }
            Self::HalfSentLimit(_) => {
                Some(Error::new(Reason::HalfSentLimit).detail(self.to_string()))
            }
            Self::Http(error) if let Some(code) = http2_violation(error) => {
                let detail = format!("HTTP/2 connection ended with {code:?}: {error}");
                let failure = Error::new(Reason::MalformedRequest).detail(detail);
                Some(failure.reset(code))
            }
            // An endpoint's body that broke off has a source, and was counted as its failure.
            Self::Http(error) if error.is_user() && error.source().is_none() => {
                let detail = format!("the response could not be written: {error}");
                Some(Error::new(Reason::Unexpected).detail(detail))
            }
            Self::Http(_) | Self::ClientLeft(_) | Self::ClientFailed(_) => None,
        }
    }
}

/// The reason for which the codec refuses a head with this status.
fn refusal_reason(status: u16) -> Reason {
    match status {
        414 => Reason::TargetTooLong,
        431 => Reason::HeadTooLarge,
        _ => Reason::MalformedRequest,
    }
}

/// The code of the GOAWAY with which the codec ended a connection whose client violated HTTP/2.
fn http2_violation(error: &hyper::Error) -> Option<h2::Reason> {
    let error = error.source()?.downcast_ref::<h2::Error>()?;
    let code = error.reason().filter(|_| error.is_library())?;
    Some(code).filter(|code| *code != h2::Reason::NO_ERROR)
}

impl From<HalfSentError> for ServeError {
    fn from(error: HalfSentError) -> Self {
        match error {
            HalfSentError::Timeout(timeout) => Self::HeaderTimeout(timeout),
            HalfSentError::Limit(bound) => Self::HalfSentLimit(bound),
        }
    }
}
