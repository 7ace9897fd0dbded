//! Explanations by a running proxy.

use super::failure::Failure;
use crate::{
    cli::admin_request::{AdminReply, admin_get_blocking},
    explain::{ExplainAnswer, QueryFields},
};
use http::StatusCode;
use serde_json::Value;
use std::net::SocketAddr;

/// Asks the admin server of a proxy.
pub(super) fn explain(addr: SocketAddr, fields: &QueryFields) -> Result<ExplainAnswer, Failure> {
    let unanswered = |error: String| {
        Failure::Unanswered(format!(
            "the admin server of a proxy does not answer at {addr}: {error}; --admin sets another address, --mesh \
             reads a mesh file instead"
        ))
    };
    let path = format!("/explain?{}", fields.to_parameters());
    let AdminReply { status, body } = admin_get_blocking(addr, &path).map_err(unanswered)?;
    let document = serde_json::from_slice::<Value>(&body);
    match (status, document) {
        (StatusCode::OK, Ok(document)) => Ok(ExplainAnswer::Explained(document)),
        (StatusCode::NOT_FOUND, Ok(document)) => Ok(ExplainAnswer::UnknownTarget(document)),
        (StatusCode::BAD_REQUEST, Ok(document)) => {
            let error = document["error"].as_str().unwrap_or_default();
            Err(Failure::Usage(error.to_owned()))
        }
        (status, _) => {
            let text = String::from_utf8_lossy(&body);
            Err(unanswered(format!("{status} {}", text.trim())))
        }
    }
}
