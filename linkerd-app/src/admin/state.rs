//! `/state`: configuration, state and activity of the proxy, as JSON.

use super::{
    context::{AdminContext, MAX_CONNECTIONS, StateSection},
    reply::{self, Reply},
    request::AdminRequest,
};
use futures::{FutureExt, future::join_all};
use http::{Method, StatusCode};
use serde_json::{Map, Value, json};
use std::{panic::AssertUnwindSafe, time::Duration};

/// All sections, or those named in the query, in the order of their names.
pub(super) async fn state(admin: &AdminContext, request: AdminRequest) -> Reply {
    if let Some(refusal) = request.refuse_readers(admin) {
        return refusal;
    }
    if !matches!(*request.http.method(), Method::GET | Method::HEAD) {
        return reply::not_allowed(&[Method::GET]);
    }
    let query = request.http.uri().query().unwrap_or_default();
    let known = || admin.sections.iter().map(|section| section.name);
    let is_known = |wanted: &str| wanted == "admin" || known().any(|name| name == wanted);
    if let Some(unknown) = query
        .split('&')
        .find(|wanted| !wanted.is_empty() && !is_known(wanted))
    {
        let known: Vec<_> = known().chain(["admin"]).collect();
        let problem = format!(
            "{unknown:?} is no section of the state; there are {}",
            known.join(", ")
        );
        return reply::json_error(StatusCode::NOT_FOUND, &problem);
    }
    let is_wanted = |name: &str| query.is_empty() || query.split('&').any(|wanted| wanted == name);
    let sections = admin.sections.iter();
    let sections = sections.filter(|section| is_wanted(section.name));
    let sections = sections.map(collect);
    let mut state: Map<String, Value> = join_all(sections).await.into_iter().collect();
    if is_wanted("admin") {
        let policy = admin.policy.as_ref();
        let own = json!({
            "connections": { "open": admin.connections.get(), "limit": MAX_CONNECTIONS },
            "handshakes": policy.map(|policy| policy.inspect_handshakes()),
        });
        state.insert("admin".to_owned(), own);
    }
    let mut text = format!("{:#}", Value::Object(state));
    text.push('\n');
    reply::json(StatusCode::OK, text)
}

/// Collects a section. A timeout or a panic is reported in its place and leaves the other sections intact.
async fn collect(section: &StateSection) -> (String, Value) {
    let collect = AssertUnwindSafe((section.collect)()).catch_unwind();
    let value = match tokio::time::timeout(TIMEOUT, collect).await {
        Ok(Ok(value)) => value,
        Ok(Err(_)) => json!({ "error": "collecting this section panicked" }),
        Err(_) => json!({ "error": format!("no answer within {TIMEOUT:?}") }),
    };
    (section.name.to_owned(), value)
}

/// Limit for a section: a worker that does not answer within it is stuck, which the document should show.
const TIMEOUT: Duration = Duration::from_secs(1);
