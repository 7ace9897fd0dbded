//! The process in `/state`: its build, its age, and its descriptors.

use super::{BUILD, usage::Usage};
use serde_json::{Value, json};
use tokio::time::Instant;

/// The process of a proxy that runs since `started`, with this many workers.
pub fn inspect(started: Instant, workers: usize) -> Value {
    let usage = Usage::of_self();
    json!({
        "version": BUILD.version,
        "revision": BUILD.git_sha,
        "profile": BUILD.profile,
        "uptime_ms": started.elapsed().as_millis() as u64,
        "workers": workers,
        "descriptors": { "open": usage.open_fds, "limit": usage.max_fds },
    })
}
