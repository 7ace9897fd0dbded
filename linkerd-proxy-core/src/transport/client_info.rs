//! A client's connection, as it was accepted.

use super::ListenerContext;
use crate::{Error, Reason, tls::TlsStatus};
use std::{net::SocketAddr, rc::Rc};

/// A client's connection: made at accept, and carried by each of its requests.
#[derive(Clone, Debug)]
pub struct ClientInfo {
    /// The client's address.
    pub addr: SocketAddr,
    /// The proxy's address to which the client connected.
    pub local: SocketAddr,
    /// The destination before the redirection; `None` if the connection was not redirected.
    pub orig_dst: Option<SocketAddr>,
    /// The encryption of the connection.
    pub tls: TlsStatus,
    /// The listener that accepted the connection, and whose drain ends it.
    pub listener: Rc<ListenerContext>,
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
