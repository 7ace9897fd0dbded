//! The target and the trace of a request, as its line of the access log and its entry among the failures show them.

use http::{HeaderValue, Uri};

/// The authority of a request's target, or else its `host`, without user and password; empty if it has neither.
pub fn authority<'r>(uri: &'r Uri, host: Option<&'r HeaderValue>) -> &'r [u8] {
    without_userinfo(whole_authority(uri, host))
}

/// The authority of a request's target, or else its `host`; empty if it has neither.
pub fn whole_authority<'r>(uri: &'r Uri, host: Option<&'r HeaderValue>) -> &'r [u8] {
    match uri.authority() {
        Some(authority) => authority.as_str().as_bytes(),
        None => host.map_or(&b""[..], HeaderValue::as_bytes),
    }
}

/// An authority without its user and password.
pub fn without_userinfo(authority: &[u8]) -> &[u8] {
    match authority.iter().rposition(|byte| *byte == b'@') {
        Some(at) => &authority[at + 1..],
        None => authority,
    }
}

/// A URL without its user, password and fragment, and without the query unless that is asked for.
pub fn push_url<'u>(url: &'u [u8], with_query: bool, mut push: impl FnMut(&'u [u8])) {
    let end = url
        .iter()
        .position(|byte| *byte == b'#' || (*byte == b'?' && !with_query));
    let url = &url[..end.unwrap_or(url.len())];
    let Some(authority) = url.windows(2).position(|pair| pair == b"//") else {
        // No URL in full; user information before an @ may be a secret all the same.
        return push(without_userinfo(url));
    };
    let (scheme, rest) = url.split_at(authority + 2);
    let path = rest.iter().position(|byte| matches!(byte, b'/' | b'?'));
    let (authority, path) = rest.split_at(path.unwrap_or(rest.len()));
    push(scheme);
    push(without_userinfo(authority));
    push(path);
}

/// The trace id of a valid `traceparent` (W3C Trace Context): version "-" trace-id "-" parent-id "-" flags.
pub fn trace_id(traceparent: &HeaderValue) -> Option<&str> {
    let value = traceparent.to_str().ok()?;
    let id = value.get(3..35)?;
    let is_id = id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let bytes = value.as_bytes();
    (is_id && bytes[2] == b'-' && bytes.get(35) == Some(&b'-')).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_is_shown_without_its_secrets() {
        let host = HeaderValue::from_static("me:secret@web:80");
        let absolute: Uri = "http://me:secret@api/a".parse().unwrap();
        assert_eq!(authority(&absolute, Some(&host)), b"api");
        let origin = Uri::from_static("/a");
        assert_eq!(authority(&origin, Some(&host)), b"web:80");
        assert_eq!(authority(&origin, None), b"");
    }

    #[test]
    fn a_url_is_shown_without_its_secrets() {
        for (url, with_query, expected) in [
            ("https://me:secret@web/a?b#c", false, "https://web/a"),
            ("https://me:secret@web?b#c", true, "https://web?b"),
            ("https://web", false, "https://web"),
            ("/a?b", false, "/a"),
            ("", false, ""),
            ("secret@web/a", false, "web/a"),
        ] {
            let mut pushed = Vec::new();
            push_url(url.as_bytes(), with_query, |part| {
                pushed.extend_from_slice(part)
            });
            assert_eq!(pushed, expected.as_bytes(), "{url}");
        }
    }

    #[test]
    fn a_trace_id_is_that_of_a_valid_header() {
        let of = |text| trace_id(&HeaderValue::from_static(text)).map(str::to_owned);
        let id = "0af7651916cd43dd8448eb211c80319c";
        let valid = of("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        assert_eq!(valid.as_deref(), Some(id));
        for other in [
            "00-0af7",
            "00-0af7651916cd43dd8448eb211c80319c",
            "00-<af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
