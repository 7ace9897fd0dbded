//! `/env.json`: the environment that the proxy was started with. Clients on this host see all variables, others the proxy's own.

use super::{
    context::AdminContext,
    reply::{self, Reply},
    request::AdminRequest,
};
use crate::config::{is_own_variable, masked};
use http::{Method, StatusCode, header};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// All variables, or those named in the query.
pub(super) fn env(admin: &AdminContext, request: &AdminRequest) -> Reply {
    if request.http.method() != Method::GET {
        return reply::not_allowed(&[Method::GET]);
    }
    if let Some(refusal) = request.refuse_foreign(admin) {
        return refusal;
    }
    if let Some(refusal) = refuse_format(request) {
        return refusal;
    }
    let is_shown = |name: &str| request.is_local() || is_own_variable(name);
    let shown = admin.env.iter().filter(|(name, _)| is_shown(name));
    let values: HashMap<_, _> = shown.collect();
    let all: Map<String, Value> = match request.http.uri().query().filter(|q| !q.is_empty()) {
        Some(query) if query.contains('=') => {
            return reply::json_error(StatusCode::BAD_REQUEST, KEY_VALUE);
        }
        Some(query) => query
            .split('&')
            .map(|name| {
                let value = values.get(name);
                (
                    name.to_owned(),
                    value.map_or(Value::Null, |value| masked(name, value).into()),
                )
            })
            .collect(),
        None => values
            .iter()
            .map(|(name, value)| (name.to_string(), masked(name, value).into()))
            .collect(),
    };
    reply::json(StatusCode::OK, Value::Object(all).to_string())
}

/// The response to clients that do not accept JSON.
fn refuse_format(request: &AdminRequest) -> Option<Reply> {
    let accept = request.http.headers().get(header::ACCEPT)?;
    match accept.to_str() {
        Ok(accept) if JSON.iter().any(|kind| accept.contains(kind)) => None,
        Ok(_) => Some(reply::bare(StatusCode::NOT_ACCEPTABLE, JSON[0])),
        Err(error) => Some(reply::json_error(
            StatusCode::BAD_REQUEST,
            &error.to_string(),
        )),
    }
}

/// Media ranges in `accept` that include JSON.
const JSON: [&str; 3] = ["application/json", "application/*", "*/*"];

const KEY_VALUE: &str = "env.json query parameters may not contain key-value pairs";
