//! Loads the settings of the access log.

use super::super::access_log::is_secret;
use super::super::reader::Reader;
use super::super::variables::*;
use crate::config::AccessLogConfig;

/// The access log: ours, or else the incumbent's, which is off with the log.
pub(super) fn access_log(r: &mut Reader<'_>, log_is_off: bool) -> Option<AccessLogConfig> {
    let incumbent = r.lenient(&ACCESS_LOG).filter(|_| !log_is_off);
    let own = r.given(&ACCESS_LOG_FORMAT);
    let output = r.value(&ACCESS_LOG_OUTPUT);
    let sample = r.value(&ACCESS_LOG_SAMPLE);
    let query = r.value(&ACCESS_LOG_QUERY);
    let mut headers = r.given(&ACCESS_LOG_HEADERS).unwrap_or_default();
    headers.retain(|name| {
        let is_secret = is_secret(name);
        if is_secret {
            let variable = ACCESS_LOG_HEADERS.name();
            r.warnings
                .push(format!("{variable}: the header {name} is never logged"));
        }
        !is_secret
    });
    Some(AccessLogConfig {
        format: own.or(incumbent)?,
        output,
        sample,
        query,
        headers,
    })
}
