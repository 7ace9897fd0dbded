//! The error of a body, in both directions.

use crate::{Error, Reason, error::find};
use std::{error::Error as StdError, fmt};

/// The failure of a request's body on its way to the endpoint, or of a response's body on its way to the client.
///
/// hyper resets an HTTP/2 stream with the code that it finds among the sources of this error.
#[derive(Debug)]
pub struct BodyError(Cause);

#[derive(Debug)]
enum Cause {
    /// The connection or the stream of the body failed.
    Http(hyper::Error),
    /// The connection of the body was given up.
    Gone(Box<Gone>),
    /// The proxy ended the body.
    Ended(Box<Ended>),
}

#[derive(Debug)]
struct Gone {
    error: hyper::Error,
    /// For hyper: the code of a connection says nothing about another connection's stream.
    reset: h2::Error,
}

#[derive(Debug)]
struct Ended {
    error: Error,
    /// For hyper: an HTTP/2 stream is reset with the error's own code, or else with `CANCEL`.
    reset: h2::Error,
}

impl BodyError {
    /// The reset of the body's stream.
    pub fn reset(code: h2::Reason) -> Self {
        Error::new(Reason::StreamReset).reset(code).into()
    }

    /// The code of the reset that ended the body, if one did: sent by the endpoint or the client, or chosen by the proxy. A body
    /// that the proxy ended for another reason, such as a deadline, has none.
    pub fn reset_code(&self) -> Option<h2::Reason> {
        match &self.0 {
            Cause::Http(error) => find::<h2::Error>(error).and_then(h2::Error::reason),
            Cause::Gone(_) => None,
            Cause::Ended(ended) => ended.error.reset_code(),
        }
    }

    /// The reason for which a response's body ended.
    pub fn reason(&self) -> Reason {
        match &self.0 {
            Cause::Http(_) if self.reset_code().is_some() => Reason::StreamReset,
            Cause::Http(_) | Cause::Gone(_) => Reason::ConnectionLost,
            Cause::Ended(ended) => ended.error.reason(),
        }
    }

    /// The failure of a response whose body ended with this error.
    pub(super) fn response_failure(&self) -> Error {
        let detail = format!("the response broke off: {self}");
        match self.reset_code() {
            Some(code) => Error::new(Reason::StreamReset).reset(code).detail(detail),
            None => Error::new(self.reason()).detail(detail),
        }
    }

    /// The failure of a request whose own body ended with this error: the client's if its connection or stream broke off, and
    /// never the endpoint's.
    pub(super) fn request_failure(&self) -> (Reason, String) {
        match &self.0 {
            Cause::Http(_) | Cause::Gone(_) => (
                Reason::BrokenBody,
                format!("the request's body broke off: {self}"),
            ),
            Cause::Ended(ended) => (ended.error.reason(), ended.error.to_string()),
        }
    }
}

impl From<hyper::Error> for BodyError {
    #[inline]
    fn from(error: hyper::Error) -> Self {
        let is_gone = find::<h2::Error>(&error).is_some_and(h2::Error::is_go_away);
        Self(match is_gone {
            true => Cause::Gone(Box::new(Gone {
                error,
                reset: h2::Reason::INTERNAL_ERROR.into(),
            })),
            false => Cause::Http(error),
        })
    }
}

impl From<Error> for BodyError {
    fn from(error: Error) -> Self {
        let code = error.reset_code().unwrap_or(h2::Reason::CANCEL);
        let reset = code.into();
        Self(Cause::Ended(Box::new(Ended { error, reset })))
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Cause::Http(error) => error.fmt(f),
            Cause::Gone(gone) => match find::<h2::Error>(&gone.error) {
                Some(cause) => write!(f, "{}: {cause}", gone.error),
                None => gone.error.fmt(f),
            },
            Cause::Ended(ended) => ended.error.fmt(f),
        }
    }
}

impl StdError for BodyError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(match &self.0 {
            Cause::Http(error) => error,
            Cause::Gone(gone) => &gone.reset,
            Cause::Ended(ended) => &ended.reset,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The code that hyper finds.
    fn code(error: &BodyError) -> Option<h2::Reason> {
        find::<h2::Error>(error).and_then(h2::Error::reason)
    }

    #[test]
    fn a_reset_keeps_its_code() {
        let error = BodyError::reset(h2::Reason::ENHANCE_YOUR_CALM);
        assert_eq!(error.reset_code(), Some(h2::Reason::ENHANCE_YOUR_CALM));
        assert_eq!(code(&error), error.reset_code());
    }

    #[test]
    fn a_body_that_the_proxy_ends_was_not_reset_and_cancels_its_stream() {
        let error = BodyError::from(Error::new(Reason::ConnectTimeout));
        assert_eq!(error.reset_code(), None);
        assert_eq!(code(&error), Some(h2::Reason::CANCEL));
        assert_eq!(error.reason(), Reason::ConnectTimeout);
        assert_eq!(error.to_string(), "connect timed out");
    }
}
