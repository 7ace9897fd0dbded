//! The time after which an endpoint asks for the next request.

use http::{HeaderMap, HeaderName, StatusCode, header::RETRY_AFTER};
use std::time::{Duration, SystemTime};

/// The delay asked for by a response: `retry-after` of a 429 or 503, or else the pushback of a gRPC status in its headers.
pub fn retry_after(status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    match status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            delay(headers.get(RETRY_AFTER)?.to_str().ok()?, SystemTime::now())
        }
        _ => retry_pushback(headers),
    }
}

/// The pushback of a gRPC status, in trailers or in headers: `grpc-retry-pushback-ms`. A negative value counts as none.
pub fn retry_pushback(headers: &HeaderMap) -> Option<Duration> {
    let millis = headers.get(PUSHBACK)?.to_str().ok()?;
    let millis: i32 = millis.trim().parse().ok()?;
    u64::try_from(millis).ok().map(Duration::from_millis)
}

/// A value of `retry-after`: seconds, or a date. A date in the past is 0.
fn delay(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(status: u16, name: &'static str, value: &'static str) -> Option<u64> {
        let headers = HeaderMap::from_iter([(
            HeaderName::from_static(name),
            http::HeaderValue::from_static(value),
        )]);
        let hint = retry_after(StatusCode::from_u16(status).unwrap(), &headers);
        hint.map(|hint| u64::try_from(hint.as_millis()).unwrap())
    }

    #[test]
    fn a_limited_or_unavailable_endpoint_has_a_hint_in_seconds() {
        assert_eq!(hint(429, "retry-after", "7"), Some(7_000));
        assert_eq!(hint(503, "retry-after", " 0 "), Some(0));
        assert_eq!(hint(500, "retry-after", "7"), None);
        assert_eq!(hint(429, "retry-after", "-7"), None);
        assert_eq!(hint(429, "retry-after", "soon"), None);
    }

    #[test]
    fn a_date_is_as_long_as_it_is_ahead() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        let at = httpdate::parse_http_date(date).unwrap();
        let minute = Duration::from_secs(60);
        assert_eq!(delay(date, at - minute), Some(minute));
        assert_eq!(delay(date, at + minute), Some(Duration::ZERO));
    }

    #[test]
    fn grpc_pushes_back_in_milliseconds() {
        assert_eq!(hint(200, "grpc-retry-pushback-ms", "250"), Some(250));
        assert_eq!(hint(200, "grpc-retry-pushback-ms", "-1"), None);
        assert_eq!(hint(200, "grpc-retry-pushback-ms", "9999999999"), None);
    }
}
