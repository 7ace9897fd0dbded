//! `/shutdown`: ends the proxy, for jobs that have finished their work.

use super::{
    context::AdminContext,
    reply::{self, Reply},
    request::AdminRequest,
};
use http::{Method, StatusCode};
use tokio::sync::mpsc::error::TrySendError;

/// Requests shutdown. Repeated requests have no further effect.
pub(super) fn shutdown(admin: &AdminContext, request: &AdminRequest) -> Reply {
    if request.http.method() != Method::POST {
        return reply::not_allowed(&[Method::POST]);
    }
    if let Some(refusal) = request.refuse_remote(admin) {
        return refusal;
    }
    let Some(shutdown) = &admin.shutdown else {
        return reply::text(StatusCode::NOT_FOUND, DISABLED);
    };
    match shutdown.try_send(()) {
        Ok(()) | Err(TrySendError::Full(())) => reply::text(StatusCode::OK, "shutdown\n"),
        Err(TrySendError::Closed(())) => reply::text(
            StatusCode::INTERNAL_SERVER_ERROR,
            "shutdown listener dropped\n",
        ),
    }
}

const DISABLED: &str =
    "shutdown endpoint is not enabled: LINKERD2_PROXY_SHUTDOWN_ENDPOINT_ENABLED=true enables it\n";
