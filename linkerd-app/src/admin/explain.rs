//! `/explain`: the way that a request would take.

use super::{
    context::AdminContext,
    reply::{self, Reply},
    request::{AdminRequest, read_body},
};
use crate::explain::{ExplainAnswer, QueryFields};
use http::{Method, StatusCode};
use serde_json::Value;
use std::time::Duration;

/// Explains the request of the parameters (`GET`) or of the body in JSON (`POST`).
pub(super) async fn explain(admin: &AdminContext, request: AdminRequest) -> Reply {
    if let Some(refusal) = request.refuse_readers(admin) {
        return refusal;
    }
    let fields = match *request.http.method() {
        Method::GET | Method::HEAD => {
            QueryFields::of_parameters(request.http.uri().query().unwrap_or_default())
        }
        Method::POST => match read_body(request.http.into_body()).await {
            Ok(body) => QueryFields::of_json(&body),
            Err(refusal) => return refusal,
        },
        _ => return reply::not_allowed(&[Method::GET, Method::POST]),
    };
    let fields = match fields {
        Ok(fields) if fields.port.is_some() => {
            return match fields.check_inbound() {
                Ok(query) => answer(StatusCode::OK, &(admin.explain_inbound)(&query)),
                Err(error) => reply::json_error(StatusCode::BAD_REQUEST, &error.to_string()),
            };
        }
        fields => fields,
    };
    let query = match fields.and_then(|fields| fields.check()) {
        Ok(query) => query,
        Err(error) => return reply::json_error(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    match tokio::time::timeout(TIMEOUT, (admin.explain)(query)).await {
        Ok(ExplainAnswer::Explained(document)) => answer(StatusCode::OK, &document),
        Ok(ExplainAnswer::UnknownTarget(document)) => answer(StatusCode::NOT_FOUND, &document),
        Err(_) => {
            let error = format!("a worker did not answer within {TIMEOUT:?}");
            reply::json_error(StatusCode::SERVICE_UNAVAILABLE, &error)
        }
    }
}

fn answer(status: StatusCode, document: &Value) -> Reply {
    reply::json(status, format!("{document:#}\n"))
}

/// Limit for the answer of a worker: a slower one is stuck, as for `/state`.
const TIMEOUT: Duration = Duration::from_secs(1);
