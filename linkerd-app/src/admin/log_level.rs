//! `/proxy-log-level`: reads or replaces the log filter.

use super::{
    context::AdminContext,
    reply::{self, Reply},
    request::{AdminRequest, READ_TIMEOUT},
};
use crate::logging::LogFilter;
use http::{Method, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;

/// Returns or replaces the filter.
pub(super) async fn log_level(admin: &AdminContext, request: AdminRequest) -> Reply {
    if let Some(refusal) = request.refuse_remote(admin) {
        return refusal;
    }
    let Some(filter) = &admin.log else {
        return reply::empty(StatusCode::NOT_FOUND);
    };
    match *request.http.method() {
        Method::GET => match filter.current() {
            Ok(directives) => reply::bare(StatusCode::OK, directives),
            Err(error) => reply::bare(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        },
        Method::PUT => match directives(request.http.into_body()).await {
            Ok(directives) => replace(filter, &directives),
            Err(refusal) => refusal,
        },
        _ => reply::not_allowed(&[Method::GET, Method::PUT]),
    }
}

fn replace(filter: &LogFilter, directives: &str) -> Reply {
    match filter.replace(directives) {
        Ok(()) => {
            tracing::info!(filter = directives.trim(), "set new log level");
            reply::empty(StatusCode::NO_CONTENT)
        }
        Err(error) => reply::bare(StatusCode::BAD_REQUEST, error.to_string()),
    }
}

/// The text of the body, within the limits of size and time.
async fn directives(body: Incoming) -> Result<String, Reply> {
    let body = Limited::new(body, MAX_BODY).collect();
    let body = match tokio::time::timeout(READ_TIMEOUT, body).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) => {
            let status = match error.is::<LengthLimitError>() {
                true => StatusCode::PAYLOAD_TOO_LARGE,
                false => StatusCode::BAD_REQUEST,
            };
            return Err(reply::bare(status, error.to_string()));
        }
        Err(_) => return Err(reply::empty(StatusCode::REQUEST_TIMEOUT)),
    };
    String::from_utf8(body.into())
        .map_err(|error| reply::bare(StatusCode::BAD_REQUEST, error.to_string()))
}

/// Real filters have a few hundred bytes.
pub(super) const MAX_BODY: usize = 64 * 1024;
