//! Sets of names and networks.

use ipnet::IpNet;
use std::fmt;
use std::net::IpAddr;

/// DNS suffixes, compared at label boundaries: `svc.cluster.local` is a suffix of `web.svc.cluster.local` and of
/// itself, not of `mysvc.cluster.local`. The suffix `.` matches every name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameSuffixes {
    /// Lower case, as written: a trailing dot is kept for display and ignored in comparisons.
    suffixes: Vec<String>,
}

/// Networks in CIDR notation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks {
    nets: Vec<IpNet>,
}

impl NameSuffixes {
    /// A set of suffixes, already checked by the grammar.
    pub(super) fn new(suffixes: Vec<String>) -> Self {
        Self { suffixes }
    }

    /// Whether any suffix matches. The name comes without a port; case and one trailing dot don't matter.
    pub fn matches(&self, name: &str) -> bool {
        let name = without_root(name).as_bytes();
        self.suffixes
            .iter()
            .any(|suffix| ends_with_labels(name, without_root(suffix).as_bytes()))
    }

    /// Whether there is no suffix, so that nothing matches.
    pub fn is_empty(&self) -> bool {
        self.suffixes.is_empty()
    }
}

impl Networks {
    /// A set of networks, already checked by the grammar.
    pub(super) fn new(nets: Vec<IpNet>) -> Self {
        Self { nets }
    }

    /// Whether any network contains the address. An IPv4 address mapped into IPv6 counts as IPv4.
    pub fn contains(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        self.nets.iter().any(|net| net.contains(&ip))
    }

    /// The networks in the configured order.
    pub fn iter(&self) -> impl Iterator<Item = &IpNet> {
        self.nets.iter()
    }

    /// Whether there is no network, so that nothing matches.
    pub fn is_empty(&self) -> bool {
        self.nets.is_empty()
    }
}

impl fmt::Display for NameSuffixes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.suffixes.join(","))
    }
}

fn without_root(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

fn ends_with_labels(name: &[u8], suffix: &[u8]) -> bool {
    if suffix.is_empty() {
        return true;
    }
    let Some(start) = name.len().checked_sub(suffix.len()) else {
        return false;
    };
    name[start..].eq_ignore_ascii_case(suffix) && (start == 0 || name[start - 1] == b'.')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn suffixes(list: &[&str]) -> NameSuffixes {
        NameSuffixes::new(list.iter().map(|s| s.to_string()).collect())
    }

    #[test]
    fn a_suffix_ends_at_a_label() {
        let svc = suffixes(&["svc.cluster.local.", "example.com"]);
        for name in [
            "a.svc.cluster.local",
            "A.b.SVC.cluster.local.",
            "svc.cluster.local",
            "example.com.",
        ] {
            assert!(svc.matches(name), "{name}");
        }
        for name in [
            "asvc.cluster.local",
            "cluster.local",
            "",
            ".",
            "example.com.org",
            "myexample.com",
        ] {
            assert!(!svc.matches(name), "{name}");
        }
    }

    #[test]
    fn the_root_matches_everything_and_nothing_matches_nothing() {
        assert!(suffixes(&["."]).matches("anything.at.all"));
        assert!(!suffixes(&[]).matches("anything.at.all"));
    }

    #[test]
    fn mapped_addresses_count_as_ipv4() {
        let nets = Networks::new(vec![
            "10.0.0.0/8".parse().unwrap(),
            "fd00::/8".parse().unwrap(),
        ]);
        for ip in ["10.1.2.3", "::ffff:10.1.2.3", "fd12::1"] {
            assert!(nets.contains(ip.parse().unwrap()), "{ip}");
        }
        for ip in ["11.1.2.3", "2001:db8::1"] {
            assert!(!nets.contains(ip.parse().unwrap()), "{ip}");
        }
    }

    proptest! {
        #[test]
        fn no_name_panics(name: String, suffix: String) {
            suffixes(&[&suffix]).matches(&name);
        }
    }
}
