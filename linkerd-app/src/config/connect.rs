//! Settings of connections to peers and controllers.

use super::Addr;
use linkerd_proxy_core::{
    Backoff, endpoint::ServerTls, subscription::StreamLimits, transport::SocketOptions,
};
use std::time::Duration;

/// Settings of dialling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConnectConfig {
    /// Limit for TCP and TLS together.
    pub timeout: Duration,
    /// Delays between tries.
    pub backoff: Backoff,
    /// Options of dialled sockets.
    pub socket: SocketOptions,
}

/// One controller.
#[derive(Clone, Debug, PartialEq)]
pub struct ControlAddr {
    /// Its address.
    pub addr: Addr,
    /// Its identity and server name. `None` on loopback, where no TLS is spoken.
    pub tls_name: Option<String>,
    /// Whether it is on loopback.
    pub is_loopback: bool,
    /// Dialling: as of the application if on loopback, else as of a peer.
    pub connect: ConnectConfig,
    /// Limits of its streams. None on loopback.
    pub limits: StreamLimits,
}

impl ControlAddr {
    /// TLS that verifies the controller; `None` for cleartext.
    pub fn server_tls(&self) -> Option<ServerTls> {
        let name = self.tls_name.as_ref()?;
        Some(ServerTls {
            identity: name.trim_end_matches('.').parse().ok()?,
            server_name: name.trim_end_matches('.').to_owned().try_into().ok()?,
        })
    }
}
