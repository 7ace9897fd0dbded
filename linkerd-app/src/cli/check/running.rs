//! A running proxy, by its admin server.

mod activity;
mod control_plane;
mod proxy;

use super::report::{CheckLine, CheckReport};
use crate::cli::admin_request::{AdminReply, admin_get};
use http::StatusCode;
use serde_json::Value;
use std::net::SocketAddr;

/// Adds the lines of the proxy whose admin server is at `addr`.
pub(super) async fn check(addr: SocketAddr, report: &mut CheckReport) {
    let live = match admin_get(addr, "/live").await {
        Ok(reply) if reply.status == StatusCode::OK => CheckLine::ok("live", format!("{addr}")),
        answer => {
            let cause = match answer {
                Ok(reply) => format!("it answers {}", refusal(&reply)),
                Err(error) => error,
            };
            let detail = format!("the admin server of a proxy does not answer at {addr}: {cause}");
            let fix = "start the proxy, or let --admin name its admin server on this host \
                       (kubectl port-forward POD 4191 makes it one)";
            report.add("proxy", [CheckLine::failed("live", detail).fix(fix)]);
            return;
        }
    };
    report.add("proxy", [live]);
    let (ready, state, env) = (
        admin_get(addr, "/ready").await,
        state(addr).await,
        admin_get(addr, "/env.json").await,
    );
    let known = state.as_ref().unwrap_or(&Value::Null);
    report.add("proxy", [proxy::version(&known["process"])]);
    report.add("proxy", proxy::ready(ready, known));
    report.add("environment", proxy::environment(env));
    match state {
        Err(line) => report.add("state", [line]),
        Ok(state) => {
            report.add("identity", [control_plane::identity(&state["identity"])]);
            report.add("control plane", control_plane::controllers(&state));
            report.add("control plane", control_plane::streams(&state));
            report.add("listeners", activity::listeners(&state["workers"]));
            report.add("failures", activity::failures(&state["failures"]));
            report.add("losses", activity::losses(&state));
        }
    }
}

async fn state(addr: SocketAddr) -> Result<Value, CheckLine> {
    const NAME: &str = "/state";
    let fix = "run this command on the host of the proxy, or in a container of its pod";
    let reply = admin_get(addr, NAME).await;
    let reply = reply.map_err(|error| CheckLine::failed(NAME, error).fix(fix))?;
    if reply.status != StatusCode::OK {
        return Err(CheckLine::failed(NAME, refusal(&reply)).fix(fix));
    }
    serde_json::from_slice(&reply.body).map_err(|error| {
        let fix = "is this the admin server of linkerd-proxy?";
        CheckLine::failed(NAME, format!("no JSON: {error}")).fix(fix)
    })
}

/// The status and the text of a refusal.
fn refusal(reply: &AdminReply) -> String {
    let text = String::from_utf8_lossy(&reply.body);
    format!("{} {}", reply.status, text.trim())
}
