//! A client's connection, as it was accepted.

use super::ListenerContext;
use crate::{Error, Reason};
use std::{net::SocketAddr, rc::Rc};

/// A client's connection: made at accept, and carried by each of its requests.
#[derive(Clone, Debug)]
pub struct ClientInfo {
    /// The client's address.
    pub addr: SocketAddr,
    /// The proxy's address that it reached.
    pub local: SocketAddr,
    /// The destination before it was redirected; `None` when it was not.
    pub orig_dst: Option<SocketAddr>,
    /// Its encryption.
    pub tls: TlsStatus,
    /// The listener that accepted it, whose drain ends it.
    pub listener: Rc<ListenerContext>,
}

/// The encryption of a connection, on either side of the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsStatus {
    /// There is none.
    None(NoTlsReason),
}

/// Why a connection is not encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoTlsReason {
    /// It does not leave the pod.
    Loopback,
    /// The client does not begin with TLS.
    NoTlsFromRemote,
    /// The control plane knows no identity of the endpoint.
    NotProvidedByServiceDiscovery,
}

impl ClientInfo {
    /// The destination of the connection: the proxy itself, if it was not redirected.
    pub fn going_to(&self) -> SocketAddr {
        self.orig_dst.unwrap_or(self.local)
    }

    /// The destination before the connection was redirected. Fails as `NoDestination`.
    pub fn destination(&self) -> Result<SocketAddr, Error> {
        self.orig_dst
            .ok_or_else(|| Error::new(Reason::NoDestination))
    }
}

impl NoTlsReason {
    /// The value of the label `no_tls_reason`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::NoTlsFromRemote => "no_tls_from_remote",
            Self::NotProvidedByServiceDiscovery => "not_provided_by_service_discovery",
        }
    }
}
