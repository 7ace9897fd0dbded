//! The headers of an event: secrets are redacted, long values cut.

use super::event::Headers;
use crate::{
    request_target::{push_url, without_userinfo},
    secrets::{has_secret, is_secret_name},
};
use http::{
    HeaderMap, HeaderName,
    header::{HOST, REFERER},
};
use std::borrow::Cow;

/// Copies headers for an event, at most [`MAX_HEADERS`] of them and [`MAX_VALUE`] bytes of a value. The values of secrets are
/// replaced by [`REDACTED`] unless `shows_secrets`.
pub fn copied(headers: &HeaderMap, shows_secrets: bool) -> Headers {
    let copied = headers.iter().take(MAX_HEADERS).map(|(name, value)| {
        let value = match shows_secrets {
            true => value.as_bytes().into(),
            false => shown(name, value.as_bytes()),
        };
        let cut = &value[..value.len().min(MAX_VALUE)];
        (name.as_str().to_owned(), cut.into())
    });
    copied.collect()
}

/// The value of a header without its secrets: user and password of a host or URL, and the query of the latter.
fn shown<'v>(name: &HeaderName, value: &'v [u8]) -> Cow<'v, [u8]> {
    if is_secret(name, value) {
        return REDACTED.into();
    }
    match name {
        name if *name == HOST => without_userinfo(value).into(),
        name if *name == REFERER => {
            let mut url = Vec::new();
            push_url(value, false, |part| url.extend_from_slice(part));
            url.into()
        }
        _ => value.into(),
    }
}

/// Whether the value of a header is a credential, by its name or by itself. Identifiers that are to be seen are none: they are the
/// means to find a request elsewhere.
fn is_secret(name: &HeaderName, value: &[u8]) -> bool {
    let name = name.as_str();
    !IDENTIFIERS.contains(&name)
        && (is_secret_name(name) || has_secret(&String::from_utf8_lossy(value)))
}

/// Fields with random values that are no secrets: those of traces and requests, validators of content, keys of handshakes.
const IDENTIFIERS: [&str; 14] = [
    "traceparent",
    "tracestate",
    "b3",
    "x-b3-traceid",
    "x-b3-spanid",
    "x-b3-parentspanid",
    "x-request-id",
    "x-correlation-id",
    "etag",
    "if-match",
    "if-none-match",
    "sec-websocket-key",
    "sec-websocket-accept",
    "content-digest",
];

/// The value of a secret in an event.
pub const REDACTED: &[u8] = b"[redacted]";

/// The most headers of an event, that of an HTTP/1 message.
const MAX_HEADERS: usize = 100;

/// The longest value, in bytes.
const MAX_VALUE: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn credentials_are_redacted_unless_they_are_wanted() {
        let mut headers = HeaderMap::new();
        for name in [
            "authorization",
            "proxy-authorization",
            "cookie",
            "set-cookie",
            "x-api-key",
            "x-auth-token",
            "x-session",
        ] {
            headers.insert(name, HeaderValue::from_static("hidden"));
        }
        for (_, value) in copied(&headers, false).iter() {
            assert_eq!(&**value, REDACTED);
        }
        for (_, value) in copied(&headers, true).iter() {
            assert_eq!(&**value, b"hidden");
        }
        headers.clear();
        headers.insert(HOST, HeaderValue::from_static("me:pw@web"));
        let url = "http://me:pw@web/a?token=x";
        headers.insert(REFERER, HeaderValue::from_static(url));
        let values: Vec<_> = copied(&headers, false)
            .iter()
            .map(|(_, value)| value.to_vec())
            .collect();
        assert_eq!(values, [&b"web"[..], b"http://web/a"]);
        headers.clear();
        let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln";
        headers.insert("x-user", HeaderValue::from_static(jwt));
        assert_eq!(&*copied(&headers, false)[0].1, REDACTED);
        headers.clear();
        let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        headers.insert("traceparent", HeaderValue::from_static(trace));
        assert_eq!(&*copied(&headers, false)[0].1, trace.as_bytes());
        headers.clear();
        headers.insert("x-tenant", HeaderValue::from_static("seven"));
        let copied = copied(&headers, false);
        assert_eq!(copied[0], ("x-tenant".to_owned(), b"seven"[..].into()));
    }

    #[test]
    fn headers_are_bounded() {
        let mut headers = HeaderMap::new();
        let long = HeaderValue::from_bytes(&[b'a'; 5000]).unwrap();
        for _ in 0..1000 {
            headers.append("x-long", long.clone());
        }
        let copied = copied(&headers, false);
        assert_eq!(copied.len(), MAX_HEADERS);
        assert!(copied.iter().all(|(_, value)| value.len() == MAX_VALUE));
    }
}
