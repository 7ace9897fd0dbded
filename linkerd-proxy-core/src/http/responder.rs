//! The form of the proxy's own answers to a request.

use super::{
    BodyError,
    classify::{GRPC_STATUS, is_grpc},
};
use crate::{Reason, transport::Side};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Version};
use http_body::Frame;

/// The form of an answer, taken from the request before it is passed on.
#[derive(Clone, Copy, Debug)]
pub struct Responder {
    pub(super) version: Version,
    pub(super) grpc: bool,
    pub(super) side: Side,
    pub(super) emit_headers: bool,
    is_head: bool,
    pub(super) has_text: bool,
}

impl Responder {
    /// Takes the form of the answer from a `request` of a side. `emit_headers` allows the informational headers.
    pub fn new<B>(request: &Request<B>, side: Side, emit_headers: bool) -> Self {
        Self {
            version: request.version(),
            grpc: request.version() == Version::HTTP_2 && is_grpc(request.headers()),
            side,
            emit_headers,
            is_head: request.method() == Method::HEAD,
            has_text: false,
        }
    }

    /// The form of answers on an HTTP/1 connection to requests that were not read. `has_text`: the client knows that it talks to a
    /// proxy.
    pub fn of_connection(side: Side, emit_headers: bool, has_text: bool) -> Self {
        Self {
            version: Version::HTTP_11,
            grpc: false,
            side,
            emit_headers,
            is_head: false,
            has_text: has_text && emit_headers,
        }
    }

    /// Leaves out the text if these first bytes of a request are those of HEAD, whose responses have no body.
    pub fn unless_head(mut self, request: &[u8]) -> Self {
        self.has_text &= !request.starts_with(b"HEAD ");
        self
    }

    /// Leaves out the text.
    pub fn without_text(mut self) -> Self {
        self.has_text = false;
        self
    }

    /// Adds a text: the client knows that it talks to a proxy. Not for gRPC, which has its own text, nor for HEAD.
    pub fn with_text(mut self) -> Self {
        self.has_text = self.emit_headers && !self.grpc && !self.is_head;
        self
    }

    /// Ends a response without a length with the client's connection, as with a client of HTTP/1.0.
    pub fn end_with_connection(&mut self) {
        self.version = Version::HTTP_10;
    }

    /// Whether a response without a length ends with the client's connection.
    pub(super) fn ends_with_connection(&self) -> bool {
        self.version == Version::HTTP_10
    }

    /// Whether the request is gRPC.
    pub fn is_grpc(&self) -> bool {
        self.grpc
    }

    /// The trailers that end a gRPC response whose body broke off, unless its reset is passed on.
    pub(super) fn rescue(&self, error: &BodyError) -> Option<Frame<Bytes>> {
        if !self.grpc || error.reset_code().is_some() {
            return None;
        }
        let reason = error.reason();
        let mut trailers = HeaderMap::with_capacity(2);
        let code = match reason {
            // Before the headers these are DEADLINE_EXCEEDED. The incumbent sends INTERNAL here, and clients see that code.
            Reason::RequestTimeout | Reason::ResponseTimeout | Reason::IdleTimeout => INTERNAL,
            reason => reason.grpc_code().into(),
        };
        trailers.insert(GRPC_STATUS, code.into());
        if self.emit_headers {
            let text = error.to_string();
            let text = HeaderValue::try_from(text).unwrap_or(UNEXPECTED);
            trailers.insert(GRPC_MESSAGE, text);
        }
        Some(Frame::trailers(trailers))
    }
}

/// The gRPC code of an internal error.
const INTERNAL: u16 = 13;
pub(super) const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// The text in place of one that a header cannot carry.
pub(super) const UNEXPECTED: HeaderValue = HeaderValue::from_static("unexpected error");
