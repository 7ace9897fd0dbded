//! The value of `Host` (RFC 9110, section 7.2).

use http::uri::Authority;

/// Whether a value is a host and an optional port, or empty.
pub(super) fn is_host(value: &[u8]) -> bool {
    // Almost all are plain, and need no parser. Nothing is decided before the end, which costs the least for so few bytes.
    let classes = value
        .iter()
        .fold(0, |all, byte| all | CLASSES[usize::from(*byte)]);
    match classes {
        0 => true,
        COLON => {
            let (host, port) = split(value);
            !host.is_empty() && port.iter().all(u8::is_ascii_digit)
        }
        _ => !value.contains(&b'@') && Authority::try_from(value).is_ok(),
    }
}

/// The parts of a value before its first colon, and after it.
fn split(value: &[u8]) -> (&[u8], &[u8]) {
    let colon = value.iter().position(|byte| *byte == b':');
    let colon = colon.unwrap_or(value.len());
    (&value[..colon], value.get(colon + 1..).unwrap_or_default())
}

/// A colon, as one between a host and its port.
const COLON: u8 = 1;
/// A character that neither a name nor an IPv4 address has.
const OTHER: u8 = 2;

/// The classes of characters: 0 for those of names and IPv4 addresses.
const CLASSES: [u8; 256] = {
    let mut classes = [OTHER; 256];
    let mut byte = 0;
    while byte < classes.len() {
        let character = byte as u8;
        if character.is_ascii_alphanumeric() || matches!(character, b'.' | b'-' | b'_') {
            classes[byte] = 0;
        }
        byte += 1;
    }
    classes[b':' as usize] = COLON;
    classes
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_a_name_or_an_address_and_a_port() {
        for (host, ok) in [
            ("web", true),
            ("", true),
            ("web.default.svc.cluster.local:8080", true),
            ("10.0.0.1:80", true),
            ("[::1]:80", true),
            ("[::1]", true),
            ("under_score", true),
            ("web:", true),
            ("a%20b", false),
            (":80", false),
            ("web:http", false),
            ("web:80:80", false),
            ("me@web", false),
            ("a b", false),
            ("web/", false),
            ("web?x", false),
            ("web,other", true),
            ("[::1", false),
            ("w\u{e4}b", false),
        ] {
            assert_eq!(is_host(host.as_bytes()), ok, "{host:?}");
        }
    }
}
