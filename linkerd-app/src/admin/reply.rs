//! The few forms that answers have.

use super::connection::infallible;
use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header};
use http_body::Body;
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use std::convert::Infallible;

/// An answer.
pub(super) type Reply = Response<ReplyBody>;

/// The body of an answer.
pub(super) type ReplyBody = UnsyncBoxBody<Bytes, hyper::Error>;

/// A body as it is, without a type.
pub(super) fn bare(status: StatusCode, body: impl Into<Bytes>) -> Reply {
    let body = Full::new(body.into()).map_err(infallible);
    let mut reply = Response::new(body.boxed_unsync());
    *reply.status_mut() = status;
    reply
}

/// No body.
pub(super) fn empty(status: StatusCode) -> Reply {
    bare(status, Bytes::new())
}

/// Plain text, without charset or version, as the incumbent has it.
pub(super) fn text(status: StatusCode, body: impl Into<Bytes>) -> Reply {
    typed(status, "text/plain", body)
}

/// Plain text in pieces, of which nobody knows the length.
pub(super) fn text_stream<B>(status: StatusCode, body: B) -> Reply
where
    B: Body<Data = Bytes, Error = Infallible> + Send + 'static,
{
    let mut reply = text(status, Bytes::new());
    *reply.body_mut() = body.map_err(infallible).boxed_unsync();
    reply
}

/// JSON.
pub(super) fn json(status: StatusCode, body: impl Into<Bytes>) -> Reply {
    typed(status, "application/json", body)
}

/// An error in JSON.
pub(super) fn json_error(status: StatusCode, error: &str) -> Reply {
    let body = serde_json::json!({ "error": error, "status": status.as_u16() });
    json(status, body.to_string())
}

/// The method is not one of those that are allowed, each of which has a header of its own.
pub(super) fn not_allowed(allowed: &[Method]) -> Reply {
    let mut reply = empty(StatusCode::METHOD_NOT_ALLOWED);
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
