//! Grammars of the access log's variables.

use super::InvalidValue;
use crate::config::{AccessLogFormat, AccessLogOutput};
use http::HeaderName;
use std::path::PathBuf;

/// `apache` or `json`, in any case.
pub fn access_log(text: &str) -> Result<AccessLogFormat, InvalidValue> {
    match text.to_ascii_lowercase().as_str() {
        "apache" => Ok(AccessLogFormat::Apache),
        "json" => Ok(AccessLogFormat::Json),
        _ => Err(InvalidValue::default()),
    }
}

/// `full` or `text`.
pub fn access_log_format(text: &str) -> Result<AccessLogFormat, InvalidValue> {
    match text {
        "full" => Ok(AccessLogFormat::Full),
        "text" => Ok(AccessLogFormat::Text),
        "apache" | "json" => Err(InvalidValue::fix("set LINKERD2_PROXY_ACCESS_LOG to it")),
        _ => Err(InvalidValue::default()),
    }
}

/// `stdout`, `stderr` or an absolute path.
pub fn access_log_output(text: &str) -> Result<AccessLogOutput, InvalidValue> {
    match text {
        "stdout" => Ok(AccessLogOutput::Stdout),
        "stderr" => Ok(AccessLogOutput::Stderr),
        path if path.starts_with('/') => Ok(AccessLogOutput::File(PathBuf::from(path))),
        _ => Err(InvalidValue::default()),
    }
}

/// Names of headers, separated by commas.
pub fn header_names(text: &str) -> Result<Vec<HeaderName>, InvalidValue> {
    let names = text.split(',').map(str::trim);
    let names: Result<Vec<_>, _> = names.map(HeaderName::try_from).collect();
    match names {
        Ok(names) if names.len() <= MAX_HEADERS => Ok(names),
        _ => Err(InvalidValue::default()),
    }
}

/// Each costs a look-up for each request.
const MAX_HEADERS: usize = 16;
