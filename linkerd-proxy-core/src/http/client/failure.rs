//! The reason of a failed exchange, from hyper's error.

use crate::{Error, Reason, error::find, http::BodyError, transport::LoopError};
use std::io;

/// Classifies an error of an exchange on an established connection.
pub(super) fn classify(error: hyper::Error) -> Error {
    if let Some(body) = find::<BodyError>(&error) {
        let (reason, detail) = body.request_failure();
        return Error::new(reason).detail(detail).source(error);
    }
    let h2 = find::<h2::Error>(&error);
    if let Some(h2) = h2
        && let Some(code) = h2.reason()
    {
        if h2.is_go_away() && h2.is_library() {
            let detail = format!("the proxy ended the endpoint's connection: {h2}");
            return Error::new(Reason::ConnectionLost)
                .detail(detail)
                .source(error);
        }
        if h2.is_go_away() && h2.is_remote() {
            let detail = format!("the endpoint goes away, and did not take the stream: {code:?}");
            // The code is the connection's, mostly NO_ERROR, and says nothing about the request.
            let reset = h2::Reason::REFUSED_STREAM;
            let refused = Error::new(Reason::StreamRefused).detail(detail);
            return refused.reset(reset).source(error);
        }
        let reason = match code {
            h2::Reason::REFUSED_STREAM => Reason::StreamRefused,
            _ => Reason::StreamReset,
        };
        let detail = format!("the endpoint reset the stream: {code:?}");
        return Error::new(reason).detail(detail).reset(code).source(error);
    }
    let io = h2
        .and_then(h2::Error::get_io)
        .or_else(|| find::<io::Error>(&error));
    let (reason, detail) = match io {
        Some(io) if io.get_ref().is_some_and(|cause| cause.is::<LoopError>()) => {
            (Reason::Loop, io.to_string())
        }
        Some(io) => (Reason::ConnectionLost, io.to_string()),
        None if error.is_timeout() => (
            Reason::ConnectionLost,
            "the endpoint's answer to a PING timed out".to_owned(),
        ),
        None if error.is_parse() => (Reason::InvalidResponse, error.to_string()),
        None => (Reason::ConnectionLost, error.to_string()),
    };
    Error::new(reason).detail(detail).source(error)
}
