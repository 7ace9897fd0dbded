//! Fields that belong to one connection (RFC 9110, sections 7.6.1 and 7.8).

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{CONNECTION, UPGRADE},
};

/// Whether a field belongs to one connection, like `Connection` and `Upgrade`, but has no constant in the `http` crate.
///
/// `te` and `transfer-encoding` belong to a connection, too, but stay: the codec replaces them as the next connection needs.
pub(super) fn is_unregistered_hop_by_hop(name: &HeaderName) -> bool {
    *name == KEEP_ALIVE || *name == PROXY_CONNECTION
}

/// A field that was removed and may be needed again.
pub(super) struct Removed {
    /// The first value of `Upgrade`.
    pub(super) upgrade: Option<HeaderValue>,
}

/// Removes the fields that belong to a connection, and those that `Connection` names, except `Host`, which every request
/// needs. Names are compared as bytes: a value that is not valid text in part still names other fields.
pub(super) fn remove_hop_by_hop(headers: &mut HeaderMap) -> Removed {
    // Several lines mean the same as one. Almost no message has them, and then nothing is allocated.
    let others: Vec<_> = headers
        .get_all(CONNECTION)
        .iter()
        .skip(1)
        .cloned()
        .collect();
    let first = headers.remove(CONNECTION);
    for name in first.iter().chain(&others).flat_map(tokens) {
        // The first three are options, not names of fields; almost every message has one of them alone.
        let stays = ["close", "keep-alive", "upgrade", "host"]
            .iter()
            .any(|option| name.eq_ignore_ascii_case(option.as_bytes()));
        if !stays && let Ok(name) = HeaderName::from_bytes(name) {
            headers.remove(name);
        }
    }
    let is_left = |name: &HeaderName| {
        is_unregistered_hop_by_hop(name) || *name == UPGRADE || *name == HTTP2_SETTINGS
    };
    if !headers.keys().any(is_left) {
        return Removed { upgrade: None };
    }
    for name in [&PROXY_CONNECTION, &KEEP_ALIVE, &HTTP2_SETTINGS] {
        headers.remove(name);
    }
    Removed {
        upgrade: headers.remove(UPGRADE),
    }
}

/// The protocols that a request offers to switch to, without `h2c`: an offer of `h2c` is served as plain HTTP/1.1, as an
/// endpoint that accepted it would bypass this proxy. `None` if no protocol is left, or if `Connection` does not name
/// `upgrade`.
pub(super) fn offered_protocols(headers: &HeaderMap) -> Option<HeaderValue> {
    let connection = headers.get_all(CONNECTION).iter();
    if !connection
        .flat_map(tokens)
        .any(|option| option.eq_ignore_ascii_case(b"upgrade"))
    {
        return None;
    }
    let offered = headers.get_all(UPGRADE).iter().flat_map(tokens);
    let passed: Vec<_> = offered.filter(|protocol| !is_h2c(protocol)).collect();
    match passed.is_empty() {
        true => None,
        false => HeaderValue::from_bytes(&passed.join(&b", "[..])).ok(),
    }
}

/// Sets the fields of a request for an upgrade, or of the answer that accepts it.
pub(super) fn set_upgrade(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, protocol);
}

/// Whether a protocol is `h2c`, with or without a version or parameters.
fn is_h2c(protocol: &[u8]) -> bool {
    let name = protocol
        .split(|byte| matches!(byte, b'/' | b';' | b' ' | b'\t'))
        .next();
    name.is_some_and(|name| name.eq_ignore_ascii_case(b"h2c"))
}

/// The members of a list that are not empty.
pub(super) fn tokens(value: &HeaderValue) -> impl Iterator<Item = &[u8]> {
    let members = value.as_bytes().split(|byte| *byte == b',');
    members
        .map(<[u8]>::trim_ascii)
        .filter(|member| !member.is_empty())
}

// Statics: a constant with a non-standard name is made, and dropped, at each comparison.
static HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");
static KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
static PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
