//! `/live` and `/ready`: probes.

use super::{
    context::AdminContext,
    reply::{self, Reply},
};
use http::StatusCode;

/// Any response means that the proxy is alive.
pub(super) fn live() -> Reply {
    reply::text(StatusCode::OK, "live\n")
}

/// Whether the proxy is ready. If not, the pending conditions follow, one a line; then the controllers that were not
/// reached yet: they do not delay readiness, as with the incumbent.
pub(super) fn ready(admin: &AdminContext) -> Reply {
    let unreached = (admin.unreached)().into_iter();
    let unreached: String = unreached
        .map(|what| format!("not reached yet: {what}\n"))
        .collect();
    if admin.readiness.is_ready() {
        return reply::text(StatusCode::OK, format!("ready\n{unreached}"));
    }
    let pending = admin.readiness.pending();
    let lines: String = pending.iter().map(|what| format!("{what}\n")).collect();
    reply::bare(
        StatusCode::SERVICE_UNAVAILABLE,
        format!("not ready\n{lines}{unreached}"),
    )
}
