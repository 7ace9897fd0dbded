//! The parts of a request that its failure names.

use crate::request_target::{authority, trace_id};
use http::{HeaderName, HeaderValue, Request, Uri, header::HOST};

/// The target and the trace of a request, kept beside it until its response: handles of its buffers, so that nothing is
/// copied or allocated for a request that succeeds.
#[derive(Debug)]
pub struct RequestHead {
    uri: Uri,
    /// Set if the target names no authority.
    host: Option<HeaderValue>,
    traceparent: Option<HeaderValue>,
}

impl RequestHead {
    /// The head of a request.
    pub fn of<B>(request: &Request<B>) -> Self {
        let (uri, headers) = (request.uri(), request.headers());
        let host = match uri.authority() {
            Some(_) => None,
            None => headers.get(HOST).cloned(),
        };
        Self {
            uri: uri.clone(),
            host,
            traceparent: headers.get(TRACEPARENT).cloned(),
        }
    }

    /// The authority of the request's target, or else its `Host`, without secrets; bytes that are no text are replaced.
    pub fn authority(&self) -> Option<String> {
        let authority = authority(&self.uri, self.host.as_ref());
        (!authority.is_empty()).then(|| String::from_utf8_lossy(authority).into_owned())
    }

    /// The path without its query, which may hold secrets.
    pub fn path(&self) -> &str {
        self.uri.path()
    }

    /// The trace id of W3C Trace Context, if the request has a valid one.
    pub fn trace_id(&self) -> Option<&str> {
        trace_id(self.traceparent.as_ref()?)
    }
}

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
