//! The grammars of addresses, ports and networks.

use super::grammars::{accepts, advises, refuses};
use crate::config::grammar::*;

#[test]
fn addresses() {
    let sock = |text: &str| text.parse::<std::net::SocketAddr>().unwrap();
    accepts(
        socket_addr,
        &[
            ("1.2.3.4:80", sock("1.2.3.4:80")),
            ("[::1]:0", sock("[::1]:0")),
        ],
    );
    refuses(
        socket_addr,
        &[
            "",
            "1.2.3.4",
            "::1:80",
            "localhost:80",
            " 1.2.3.4:80",
            "1.2.3.4:65536",
        ],
    );
    advises(
        socket_addr,
        &[
            ("1.2.3.4", "add the port"),
            (
                "::1:9001",
                "write an IPv6 address in brackets, with a port: [::1]:9001",
            ),
            (
                "::1",
                "write an IPv6 address in brackets, with a port: [::1]:PORT",
            ),
            ("localhost:80", "write the address instead of the name"),
        ],
    );
    let two = vec![sock("127.0.0.1:4140"), sock("[::1]:4140")];
    accepts(
        socket_addrs,
        &[
            ("127.0.0.1:4140", two[..1].to_vec()),
            ("127.0.0.1:4140,[::1]:4140", two.clone()),
        ],
    );
    refuses(
        socket_addrs,
        &[
            "",
            ",",
            "127.0.0.1:1,",
            "127.0.0.1:1, [::1]:1",
            "1.1.1.1:1,1.1.1.1:2,1.1.1.1:3",
        ],
    );
    advises(
        socket_addrs,
        &[(
            "1.1.1.1:1,1.1.1.1:2,1.1.1.1:3",
            "leave 1 of the 3 addresses out",
        )],
    );

    advises(
        addr,
        &[(
            "fd00::1:8086",
            "write an IPv6 address in brackets, with a port: [fd00::1]:8086",
        )],
    );

    let name = |host: &str, port| Addr::Name {
        host: host.to_owned(),
        port,
    };
    accepts(
        addr,
        &[
            ("1.2.3.4:80", Addr::Ip(sock("1.2.3.4:80"))),
            ("[fd00::1]:80", Addr::Ip(sock("[fd00::1]:80"))),
            ("Web.example.COM:80", name("web.example.com", 80)),
            ("localhost.:8086", name("localhost.", 8086)),
        ],
    );
    refuses(
        addr,
        &[
            "",
            "web",
            "web:",
            ":80",
            "web:x",
            "web:65536",
            "1.2.3.4",
            "fd00::1",
            "a b:80",
            "http://web:80",
        ],
    );
    advises(
        addr,
        &[("web.example", "add the port"), ("1.2.3.4", "add the port")],
    );
}

#[test]
fn loopback_is_an_address_or_the_absolute_name() {
    for (text, expected) in [
        ("127.0.0.1:1", true),
        ("127.1.2.3:1", true),
        ("[::1]:1", true),
        ("localhost.:1", true),
        ("LocalHost.:1", true),
        ("localhost:1", false),
        ("mylocalhost.:1", false),
        ("10.0.0.1:1", false),
        ("0.0.0.0:1", false),
    ] {
        assert_eq!(addr(text).unwrap().is_loopback(), expected, "{text}");
    }
}

#[test]
fn sets() {
    let ips = |list: &[&str]| {
        list.iter()
            .map(|ip| ip.parse().unwrap())
            .collect::<std::collections::HashSet<_>>()
    };
    accepts(
        ip_set,
        &[
            ("10.0.0.1", ips(&["10.0.0.1"])),
            ("10.0.0.1,fd00::1", ips(&["10.0.0.1", "fd00::1"])),
        ],
    );
    refuses(
        ip_set,
        &[
            "",
            "10.0.0.1, 10.0.0.2",
            "10.0.0.0/8",
            "10.0.0.1:80",
            "10.0.0.1,",
        ],
    );

    let ports = |list: &[u16]| {
        list.iter()
            .copied()
            .collect::<std::collections::BTreeSet<_>>()
    };
    accepts(
        port_set,
        &[
            ("", ports(&[])),
            (" , ,", ports(&[])),
            ("25,587, 3306 ,", ports(&[25, 587, 3306])),
            ("1-3", ports(&[1, 2, 3])),
            (" 1 - 3 , 2-4", ports(&[1, 2, 3, 4])),
            ("65534-65535", ports(&[65_534, 65_535])),
            ("7-7", ports(&[7])),
        ],
    );
    assert_eq!(port_set("0-65535").unwrap().len(), 65_536);
    refuses(
        port_set,
        &["3-1", "1-", "-3", "65536", "http", "1-2-3", "1 2"],
    );
    advises(
        port_set,
        &[("3-1", "the range \"3-1\" ends before it begins: write 1-3")],
    );

    let nets = |text: &str| {
        networks(text)
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(nets(" 10.0.0.0/8 ,,fd00::/8, "), ["10.0.0.0/8", "fd00::/8"]);
    assert!(networks("").unwrap().is_empty());
    refuses(networks, &["10.0.0.1", "10.0.0.0/33", "10/8", "a/8"]);
    advises(
        networks,
        &[(
            "10.0.0.1",
            "add the length of the prefix: 10.0.0.1/32 for the address alone",
        )],
    );
}
