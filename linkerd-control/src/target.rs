//! The targets of look-ups, in their canonical spelling.

use std::fmt;
use std::net::SocketAddr;

/// One target, or all targets without their own content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TargetKey {
    One(String),
    Any,
}

impl TargetKey {
    pub(crate) fn includes(&self, target: &str) -> bool {
        match self {
            Self::One(one) => one == target,
            Self::Any => true,
        }
    }
}

impl fmt::Display for TargetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(target) => f.write_str(target),
            Self::Any => f.write_str("any target"),
        }
    }
}

/// The canonical spelling of a target: names in lower case without a trailing dot, addresses in their standard form,
/// and always a port.
pub(crate) fn canonical(target: &str) -> String {
    if let Ok(addr) = target.parse::<SocketAddr>() {
        return SocketAddr::new(addr.ip().to_canonical(), addr.port()).to_string();
    }
    let (host, port) = match target.rsplit_once(':') {
        Some((host, port)) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => {
            (host, port)
        }
        _ => (target, "80"),
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    format!("{}:{port}", host.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_spelling_for_a_target() {
        for (sent, kept) in [
            (
                "Web.NS.svc.cluster.local.:80",
                "web.ns.svc.cluster.local:80",
            ),
            ("web", "web:80"),
            ("10.0.0.1:80", "10.0.0.1:80"),
            ("[::ffff:10.0.0.1]:80", "10.0.0.1:80"),
            ("[0:0::1]:80", "[::1]:80"),
            ("no port:", "no port::80"),
        ] {
            assert_eq!(canonical(sent), kept, "{sent}");
        }
    }
}
