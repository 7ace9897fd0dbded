//! The value of `Host` (RFC 9110, section 7.2).

use std::net::Ipv6Addr;

/// Whether a value is a host and an optional port, or empty. A host is a name or an address; what else the grammar allows (`a,b`,
/// `a%20b`) is no name that anyone resolves, and other servers may read it in another way.
pub(super) fn is_host(value: &[u8]) -> bool {
    // Almost all values are plain, and need no parser.
    let plain = value
        .iter()
        .take_while(|byte| IS_PLAIN[usize::from(**byte)]);
    let host = plain.count();
    match value.get(host..) {
        None | Some([]) => true,
        Some([b':', port @ ..]) => host > 0 && port.iter().all(u8::is_ascii_digit),
        Some([b'[', rest @ ..]) => host == 0 && is_ipv6_and_port(rest),
        Some(_) => false,
    }
}

/// Whether this is an IPv6 address, `]` and an optional port.
fn is_ipv6_and_port(rest: &[u8]) -> bool {
    let Some(end) = rest.iter().position(|byte| *byte == b']') else {
        return false;
    };
    let addr = std::str::from_utf8(&rest[..end]).ok();
    let is_addr = addr.is_some_and(|addr| addr.parse::<Ipv6Addr>().is_ok());
    let is_port = match &rest[end + 1..] {
        [] => true,
        [b':', port @ ..] => port.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    is_addr && is_port
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
            ("web,other", false),
            ("web!", false),
            ("*", false),
            ("[::1].evil", false),
            ("[::1]:80:80", false),
            ("[::g]", false),
            ("web[::1]", false),
            ("[::1", false),
            ("w\u{e4}b", false),
        ] {
            assert_eq!(is_host(host.as_bytes()), ok, "{host:?}");
        }
    }
}
