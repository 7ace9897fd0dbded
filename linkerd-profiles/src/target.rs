//! The target of a connection or request, for which a policy and a profile are discovered.

use linkerd_proxy_core::Destination;
use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

/// The target of a connection, by its address, or of a request, by its authority.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The original destination of a connection.
    Addr(SocketAddr),
    /// The authority of a request.
    Name(Destination),
}

/// The text is neither `ip:port` nor `name:port`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither `ip:port` nor `name:port`")]
pub struct InvalidTarget(pub String);

impl Target {
    /// The target for a host and a port. A host that is an IP yields an address.
    pub fn new(host: &str, port: u16) -> Result<Self, InvalidTarget> {
        let text = if host.contains(':') && !host.starts_with('[') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        };
        text.parse()
    }

    /// The port of the target.
    pub fn port(&self) -> u16 {
        match self {
            Self::Addr(addr) => addr.port(),
            Self::Name(name) => name.port(),
        }
    }
}

impl FromStr for Target {
    type Err = InvalidTarget;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidTarget(text.to_owned());
        if let Ok(addr) = text.parse::<SocketAddr>() {
            return (addr.port() > 0).then_some(addr.into()).ok_or_else(invalid);
        }
        let name: Destination = text.parse().map_err(|_| invalid())?;
        if name.name().starts_with('[') {
            return Err(invalid());
        }
        // Without its trailing dot the host may be an IP address.
        Ok(match name.name().parse::<IpAddr>() {
            Ok(ip) => Self::Addr((ip, name.port()).into()),
            Err(_) => Self::Name(name),
        })
    }
}

impl From<SocketAddr> for Target {
    fn from(addr: SocketAddr) -> Self {
        Self::Addr(addr)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Addr(addr) => addr.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names() {
        let shown = |text: &str| text.parse::<Target>().map(|target| target.to_string());
        assert_eq!(
            shown("Web.Default.:80"),
            Ok("web.default:80".into()),
            "lower case, no trailing dot"
        );
        assert_eq!(
            "[::1]:80".parse(),
            Ok(Target::Addr("[::1]:80".parse().unwrap()))
        );
        assert_eq!(Target::new("::1", 80), "[::1]:80".parse());
        assert_eq!("10.0.0.1.:80".parse(), Target::new("10.0.0.1", 80));
        assert_eq!(Target::new("10.0.0.1", 80), "10.0.0.1:80".parse());
        for refused in ["", "web", "web:0", "10.0.0.1:0", "[web]:1", "a b:1"] {
            assert!(shown(refused).is_err(), "{refused:?}");
        }
    }
}
