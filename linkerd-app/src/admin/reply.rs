//! Responses of the admin server.

use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header};
use http_body::Body;
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use std::convert::Infallible;

/// A response.
pub(super) type Reply = Response<ReplyBody>;

/// The body of a response.
pub(super) type ReplyBody = UnsyncBoxBody<Bytes, hyper::Error>;

/// A response with a body and without a content type.
pub(super) fn bare(status: StatusCode, body: impl Into<Bytes>) -> Reply {
    let body = Full::new(body.into()).map_err(infallible);
    let mut reply = Response::new(body.boxed_unsync());
    *reply.status_mut() = status;
    reply
}

/// A response without a body.
pub(super) fn empty(status: StatusCode) -> Reply {
    bare(status, Bytes::new())
}

/// A response in plain text; the type has neither charset nor version, as the incumbent's.
pub(super) fn text(status: StatusCode, body: impl Into<Bytes>) -> Reply {
    typed(status, "text/plain", body)
}

/// A response in plain text, streamed in pieces of unknown total length.
pub(super) fn text_stream<B>(status: StatusCode, body: B) -> Reply
where
    B: Body<Data = Bytes, Error = Infallible> + Send + 'static,
{
    let mut reply = text(status, Bytes::new());
    *reply.body_mut() = body.map_err(infallible).boxed_unsync();
    reply
}

/// A response in lines of JSON, streamed for as long as its reader stays.
pub(super) fn json_stream<B>(body: B) -> Reply
where
    B: Body<Data = Bytes, Error = Infallible> + Send + 'static,
{
    let mut reply = json(StatusCode::OK, Bytes::new());
    *reply.body_mut() = body.map_err(infallible).boxed_unsync();
    reply
}

/// A response in JSON.
pub(super) fn json(status: StatusCode, body: impl Into<Bytes>) -> Reply {
    typed(status, "application/json", body)
}

/// An error in JSON.
pub(super) fn json_error(status: StatusCode, error: &str) -> Reply {
    let body = serde_json::json!({ "error": error, "status": status.as_u16() });
    json(status, body.to_string())
}

/// The response to a method that is not allowed; each allowed one has a separate header, as with the incumbent.
pub(super) fn not_allowed(allowed: &[Method]) -> Reply {
    let names: Vec<_> = allowed.iter().map(Method::as_str).collect();
    let hint = format!("Use {} here.\n", names.join(" or "));
    let mut reply = text(StatusCode::METHOD_NOT_ALLOWED, hint);
    for method in allowed {
        if let Ok(value) = HeaderValue::from_str(method.as_str()) {
            reply.headers_mut().append(header::ALLOW, value);
        }
    }
    reply
}

fn typed(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut reply = bare(status, body);
    let kind = HeaderValue::from_static(kind);
    reply.headers_mut().insert(header::CONTENT_TYPE, kind);
    reply
}

/// Converts the error of a body that cannot fail.
pub(crate) fn infallible(never: Infallible) -> hyper::Error {
    match never {}
}
