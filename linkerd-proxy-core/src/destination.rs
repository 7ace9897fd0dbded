//! A destination: the name and port of a service whose endpoints are discovered.

use std::{fmt, str::FromStr, sync::Arc};

/// The name and port of a service, displayed as `name:port`. Cheap to clone.
///
/// The name is in lower case and without a trailing dot; an IPv6 address is in brackets. The port is not 0. Both are
/// checked once; only the text is stored, as the task of each destination has several copies.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Destination(Arc<str>);

/// The text is not a `name:port`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a destination must be `name:port`, and {0:?} is not")]
pub struct InvalidDestination(pub String);

impl Destination {
    /// The destination of a name and a port.
    pub fn new(name: &str, port: u16) -> Result<Self, InvalidDestination> {
        let invalid = || InvalidDestination(format!("{name}:{port}"));
        let name = name.strip_suffix('.').unwrap_or(name);
        if port == 0 || !is_plausible(name) {
            return Err(invalid());
        }
        let text = format!("{}:{port}", name.to_ascii_lowercase());
        Ok(Self(text.into()))
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.parts().0
    }

    /// The port.
    pub fn port(&self) -> u16 {
        let port = self.parts().1.parse();
        port.expect("the text ends with the port, which was checked")
    }

    /// The whole text, `name:port`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The authority of requests to the destination: without the port if it is 80, the port of HTTP.
    pub fn authority(&self) -> Arc<str> {
        match self.parts() {
            (name, "80") => name.into(),
            _ => self.0.clone(),
        }
    }

    fn parts(&self) -> (&str, &str) {
        let parts = self.0.rsplit_once(':');
        parts.expect("the text is made of a name, a colon and a port")
    }
}

impl FromStr for Destination {
    type Err = InvalidDestination;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidDestination(text.to_owned());
        let (name, port) = text.rsplit_once(':').ok_or_else(invalid)?;
        let port = port.parse().map_err(|_| invalid())?;
        Self::new(name, port).map_err(|_| invalid())
    }
}

impl From<Destination> for Arc<str> {
    fn from(destination: Destination) -> Self {
        destination.0
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

fn is_plausible(name: &str) -> bool {
    name.split('.').all(|label| !label.is_empty())
        && name.len() <= 253
        && name.bytes().all(|byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':' | b'[' | b']')
        })
        && (name.starts_with('[') == name.contains(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_ports() {
        let web: Destination = "Web.default.svc.cluster.local.:80".parse().unwrap();
        assert_eq!(web.to_string(), "web.default.svc.cluster.local:80");
        assert_eq!(web.name(), "web.default.svc.cluster.local");
        assert_eq!(web.port(), 80);
        let v6: Destination = "[::1]:8080".parse().unwrap();
        assert_eq!((v6.name(), v6.port()), ("[::1]", 8080));
        for refused in [
            "",
            "web",
            "web:0",
            "web:65536",
            ":80",
            ".:80",
            "web..:80",
            "web..default:80",
            ".web:80",
            "a b:80",
            "::1:80",
            ".:1",
        ] {
            let error = refused.parse::<Destination>().unwrap_err();
            assert_eq!(error, InvalidDestination(refused.into()));
        }
    }

    #[test]
    fn an_authority_has_no_port_80() {
        let authority = |text: &str| text.parse::<Destination>().unwrap().authority();
        assert_eq!(&*authority("web:80"), "web");
        assert_eq!(&*authority("web:8080"), "web:8080");
    }
}
