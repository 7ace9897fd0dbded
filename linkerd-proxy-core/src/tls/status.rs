//! The encryption of a connection, on either side of the proxy.

use super::Identity;
use std::sync::Arc;

/// The encryption of a connection, on either side of the proxy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TlsStatus {
    /// Not encrypted.
    None(NoTlsReason),
    /// Encrypted by the proxy itself. The peer's identity is known if it has shown a certificate with one; an endpoint always
    /// has.
    Meshed(Option<Identity>),
    /// Encrypted between the peers: the client asks for another name than the proxy's own.
    Passthrough {
        /// The server name that the client asks for.
        server_name: Arc<str>,
    },
}

/// Why a connection is not encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoTlsReason {
    /// The connection does not leave the pod.
    Loopback,
    /// The client does not begin with TLS.
    NoTlsFromRemote,
    /// The first bytes were not read: the port is opaque by policy.
    PortSkipped,
    /// The control plane knows no identity of the endpoint.
    NotProvidedByServiceDiscovery,
}

impl TlsStatus {
    /// The identity of the peer, if there is mutual TLS.
    pub fn identity(&self) -> Option<&Identity> {
        match self {
            Self::Meshed(identity) => identity.as_ref(),
            Self::None(_) | Self::Passthrough { .. } => None,
        }
    }

    /// Whether the proxy itself encrypts the connection.
    pub fn is_meshed(&self) -> bool {
        matches!(self, Self::Meshed(_))
    }
}

impl NoTlsReason {
    /// The value of the label `no_tls_reason`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::NoTlsFromRemote => "no_tls_from_remote",
            Self::PortSkipped => "port_skipped",
            Self::NotProvidedByServiceDiscovery => "not_provided_by_service_discovery",
        }
    }
}
