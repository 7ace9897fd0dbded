//! The value of `Host` (RFC 9110, section 7.2).

use http::uri::Authority;

/// Whether a value is a host and an optional port, or empty.
pub(super) fn is_host(value: &[u8]) -> bool {
    // Almost all values are plain, and need no parser.
    let plain = value
        .iter()
        .take_while(|byte| IS_PLAIN[usize::from(**byte)]);
    let host = plain.count();
    match value.get(host..) {
        None | Some([]) => true,
        Some([b':', port @ ..]) => host > 0 && port.iter().all(u8::is_ascii_digit),
        _ => !value.contains(&b'@') && Authority::try_from(value).is_ok(),
    }
}

/// Characters of names and IPv4 addresses.
const IS_PLAIN: [bool; 256] = {
    let mut is_plain = [false; 256];
    let mut byte = 0;
    while byte < is_plain.len() {
        let character = byte as u8;
        is_plain[byte] =
            character.is_ascii_alphanumeric() || matches!(character, b'.' | b'-' | b'_');
        byte += 1;
    }
    is_plain
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
            ("web:80,81", false),
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
