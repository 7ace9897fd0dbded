//! `/env.json`: the environment that the proxy was started with.

use super::{
    context::AdminContext,
    reply::{self, Reply},
    request::AdminRequest,
};
use http::{Method, StatusCode, header};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// All variables, or those named in the query.
pub(super) fn env(admin: &AdminContext, request: &AdminRequest) -> Reply {
    if request.http.method() != Method::GET {
        return reply::empty(StatusCode::METHOD_NOT_ALLOWED);
    }
    if let Some(refusal) = request.refuse_foreign(admin) {
        return refusal;
    }
    if let Some(refusal) = refuse_format(request) {
        return refusal;
    }
    let values: HashMap<_, _> = admin.env.iter().collect();
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
                    value.map_or(Value::Null, |value| shown(name, value)),
                )
            })
            .collect(),
        None => values
            .iter()
            .map(|(name, value)| (name.to_string(), shown(name, value)))
            .collect(),
    };
    reply::json(StatusCode::OK, Value::Object(all).to_string())
}

/// The value of a variable, masked if its name suggests a secret: the port may be reachable by others. The path of a
/// secret's file is not masked.
fn shown(name: &str, value: &str) -> Value {
    let words: Vec<_> = name
        .split(|c: char| !c.is_ascii_alphanumeric())
        .map(str::to_ascii_lowercase)
        .collect();
    let is_secret = words
        .iter()
        .any(|word| KEY.contains(&&**word) || SECRET.iter().any(|secret| word.contains(secret)));
    let is_path =
        value.starts_with('/') && words.last().is_some_and(|word| PATH.contains(&&**word));
    match is_secret && !is_path && !value.is_empty() {
        true => MASK.into(),
        false => value.into(),
    }
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

/// Parts of names that mark a secret. `PGPASSWORD` has one in the middle of a word.
const SECRET: [&str; 5] = ["secret", "token", "password", "passwd", "passphrase"];

/// Whole words of names that mark a secret; a part of a word does not, as in `KEYCLOAK_URL`.
const KEY: [&str; 4] = ["key", "keys", "apikey", "apikeys"];

/// Last words of names that mark a path.
const PATH: [&str; 3] = ["file", "path", "dir"];

const MASK: &str = "***";

/// Media ranges in `accept` that include JSON.
const JSON: [&str; 3] = ["application/json", "application/*", "*/*"];

const KEY_VALUE: &str = "env.json query parameters may not contain key-value pairs";
