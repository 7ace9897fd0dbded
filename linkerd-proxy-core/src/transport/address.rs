//! The address that a connection really reaches, however it is written.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The address that a connection to `ip` reaches.
///
/// IPv4 addresses that are mapped into IPv6 (RFC 4291, 2.5.5.2) or compatible with it (2.5.5.1) are IPv4 addresses, and
/// Linux connects the unspecified address to loopback. Every address that is compared or dialled is converted here, so
/// that all spellings of an address pass the same checks.
pub fn reached_ip(ip: IpAddr) -> IpAddr {
    let ip = match ip {
        IpAddr::V6(v6) if v6.is_unspecified() || v6.is_loopback() => ip,
        IpAddr::V6(v6) => v6.to_ipv4().map_or(ip, IpAddr::V4),
        IpAddr::V4(_) => ip,
    };
    match ip {
        IpAddr::V4(v4) if v4.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(v6) if v6.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    }
}

/// The address that a connection to `addr` reaches; see [`reached_ip`]. The scope of a link-local address stays.
pub fn reached(addr: SocketAddr) -> SocketAddr {
    match reached_ip(addr.ip()) {
        ip if ip == addr.ip() => addr,
        ip => SocketAddr::new(ip, addr.port()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn all_spellings_of_an_address_are_one() {
        for (spelt, is) in [
            ("127.0.0.1", "127.0.0.1"),
            ("0.0.0.0", "127.0.0.1"),
            ("::", "::1"),
            ("::1", "::1"),
            ("::ffff:127.0.0.1", "127.0.0.1"),
            ("::ffff:0.0.0.0", "127.0.0.1"),
            ("::ffff:7f00:1", "127.0.0.1"),
            ("::127.0.0.1", "127.0.0.1"),
            ("::10.0.0.9", "10.0.0.9"),
            ("::ffff:10.0.0.9", "10.0.0.9"),
            ("10.0.0.9", "10.0.0.9"),
            ("fe80::1", "fe80::1"),
            ("2001:db8::1", "2001:db8::1"),
        ] {
            let reached = reached_ip(spelt.parse().unwrap());
            assert_eq!(reached, is.parse::<IpAddr>().unwrap(), "{spelt}");
        }
    }

    proptest! {
        #[test]
        fn an_ipv4_address_is_the_same_in_each_family(v4: Ipv4Addr) {
            let is = reached_ip(v4.into());
            prop_assert_eq!(reached_ip(v4.to_ipv6_mapped().into()), is);
            // The last two are IPv6's own unspecified address and its loopback.
            if u32::from(v4) > 1 {
                prop_assert_eq!(reached_ip(v4.to_ipv6_compatible().into()), is);
            }
        }

        #[test]
        fn nothing_unspecified_is_left(ip: IpAddr) {
            let is = reached_ip(ip);
            prop_assert!(!is.is_unspecified());
            prop_assert_eq!(reached_ip(is), is);
        }
    }
}
