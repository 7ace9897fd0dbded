//! The errors of clients of the explicit proxy that speak another protocol.

use linkerd_proxy_core::{Error, Reason};

/// The error of a client with these first bytes: it names the protocol, where a client's setting is the usual cause.
pub(super) fn not_http(first: &[u8]) -> Error {
    let error = Error::new(Reason::NotHttp);
    match detail(first) {
        Some(detail) => error.detail(detail),
        None => error,
    }
}

fn detail(first: &[u8]) -> Option<&'static str> {
    match first {
        [0x16, 3, ..] => Some(
            "the client speaks TLS to an HTTP proxy: the URL of the proxy begins with http://, and https targets go through CONNECT",
        ),
        [5, methods, ..] if *methods > 0 => Some(
            "the client speaks SOCKS5 to an HTTP proxy: the URL of the proxy begins with http://",
        ),
        [4, 1 | 2, ..] => Some(
            "the client speaks SOCKS4 to an HTTP proxy: the URL of the proxy begins with http://",
        ),
        line_ends if line_ends.iter().all(|byte| matches!(byte, b'\r' | b'\n')) => {
            Some("the client has sent line ends and no request")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_are_known_by_their_first_bytes() {
        for (first, named) in [
            (&b"\x16\x03\x01\x02\x00\x01"[..], "TLS"),
            (b"\x05\x01\x00", "SOCKS5"),
            (b"\x05\x03\x00\x01\x02", "SOCKS5"),
            (b"\x04\x01\x00\x50\x7f\x00\x00\x01\x00", "SOCKS4"),
            (b"\n", "line ends"),
            (b"\r\n\r\n", "line ends"),
        ] {
            let error = not_http(first).to_string();
            assert!(error.contains(named), "{error} for {first:?}");
        }
        for first in [&b"SSH-2.0-x\r\n"[..], b"\x05\x00", b"\x04\x09", b"\x16\x16"] {
            let error = not_http(first).to_string();
            assert_eq!(error, Error::new(Reason::NotHttp).to_string(), "{first:?}");
        }
    }
}
