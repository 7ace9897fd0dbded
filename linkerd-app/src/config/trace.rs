//! Settings of the attributes of the process, for its spans.

use std::path::PathBuf;

/// Sources of the attributes of the process. Later ones win.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceResourceConfig {
    /// `host.name`
    pub host: Option<String>,
    /// `service.name`
    pub service: Option<String>,
    /// A file of lines `key="value"`.
    pub path: Option<PathBuf>,
    /// Lines `key=value`.
    pub extra: Option<String>,
    /// `key=value`, separated by line breaks or commas.
    pub otel: Option<String>,
}
