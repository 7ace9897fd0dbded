//! `/proxy-log-level`: reads or replaces the log filter.

use super::{
    context::AdminContext,
    reply::{self, Reply},
    request::{AdminRequest, read_body},
};
use crate::logging::LogFilter;
use http::{Method, StatusCode};
use hyper::body::Incoming;

/// Returns or replaces the filter.
pub(super) async fn log_level(admin: &AdminContext, request: AdminRequest) -> Reply {
    if let Some(refusal) = request.refuse_remote(admin) {
        return refusal;
    }
    let Some(filter) = admin.log.as_ref().map(|log| &log.filter) else {
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
    let body = read_body(body).await?;
    String::from_utf8(body.into())
        .map_err(|error| reply::bare(StatusCode::BAD_REQUEST, error.to_string()))
}
