//! Settings of taps.

use linkerd_proxy_core::tls::Identity;
use std::net::SocketAddr;

/// Taps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapConfig {
    /// The tap server. `None`: there is none.
    pub server: Option<TapServerConfig>,
    /// Whether events show the values of secret headers.
    pub shows_secrets: bool,
}

/// The tap server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapServerConfig {
    /// Listening address.
    pub listen: SocketAddr,
    /// The identity of its only client.
    pub client: Identity,
}
