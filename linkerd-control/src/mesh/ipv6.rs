//! IPv6 addresses whose brackets are missing.

use std::net::Ipv6Addr;

/// The form with brackets and a port of an IPv6 address without one of them: `[::1]:9001` for `::1:9001`, and `[::1]:PORT` for
/// `::1` and `[::1]`.
///
/// `::1:9001` is an address, too, but one that nobody has written without a port where a port is needed.
pub fn bracketed_ipv6(text: &str) -> Option<String> {
    let is_ipv6 = |text: &str| text.parse::<Ipv6Addr>().is_ok();
    let inner = text.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    if let Some(ip) = inner.filter(|ip| is_ipv6(ip)) {
        return Some(format!("[{ip}]:PORT"));
    }
    match text.rsplit_once(':') {
        Some((ip, port)) if is_ipv6(ip) && port.parse::<u16>().is_ok() => {
            Some(format!("[{ip}]:{port}"))
        }
        _ => is_ipv6(text).then(|| format!("[{text}]:PORT")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_and_ports_are_added() {
        for (text, bracketed) in [
            ("::1:9001", "[::1]:9001"),
            (":::9001", "[::]:9001"),
            ("2001:db8:0:0:0:0:0:1:80", "[2001:db8:0:0:0:0:0:1]:80"),
            ("::1", "[::1]:PORT"),
            ("2001:db8::1", "[2001:db8::1]:PORT"),
            ("[::1]", "[::1]:PORT"),
            ("fd00::abcd", "[fd00::abcd]:PORT"),
        ] {
            assert_eq!(bracketed_ipv6(text).as_deref(), Some(bracketed), "{text}");
        }
        for text in ["", "127.0.0.1:80", "web:80", "[web]", "::g:80", "[::1]:x"] {
            assert_eq!(bracketed_ipv6(text), None, "{text}");
        }
    }
}
