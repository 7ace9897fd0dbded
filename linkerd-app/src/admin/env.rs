//! `/env.json`: the environment that the proxy was started with.

use super::{
    Admin,
    reply::{self, Reply},
    router::Asked,
};
use http::{Method, StatusCode, header};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// All variables, or those that the query names.
pub(super) fn env(admin: &Admin, asked: &Asked) -> Reply {
    if asked.request.method() != Method::GET {
        return reply::empty(StatusCode::METHOD_NOT_ALLOWED);
    }
    if let Some(refusal) = refuse_format(asked) {
        return refusal;
    }
    let values: HashMap<_, _> = admin.env.iter().collect();
    let shown: Map<String, Value> = match asked.request.uri().query().filter(|q| !q.is_empty()) {
        Some(query) if query.contains('=') => {
            return reply::json_error(StatusCode::BAD_REQUEST, KEY_VALUE);
        }
        Some(query) => query
            .split('&')
            .map(|name| {
                let value = values.get(name);
                (
                    name.to_owned(),
                    value.map_or(Value::Null, |v| (&**v).into()),
                )
            })
            .collect(),
        None => values
            .iter()
            .map(|(name, value)| (name.to_string(), (&**value).into()))
            .collect(),
    };
    reply::json(StatusCode::OK, Value::Object(shown).to_string())
}

/// The answer for clients that do not want JSON.
fn refuse_format(asked: &Asked) -> Option<Reply> {
    let accept = asked.request.headers().get(header::ACCEPT)?;
    match accept.to_str() {
        Ok(accept) if JSON.iter().any(|kind| accept.contains(kind)) => None,
        Ok(_) => Some(reply::bare(StatusCode::NOT_ACCEPTABLE, JSON[0])),
        Err(error) => Some(reply::json_error(
            StatusCode::BAD_REQUEST,
            &error.to_string(),
        )),
    }
}

/// What stands for JSON in `accept`.
const JSON: [&str; 3] = ["application/json", "application/*", "*/*"];

const KEY_VALUE: &str = "env.json query parameters may not contain key-value pairs";
