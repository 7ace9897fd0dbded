//! Connections whose bytes are relayed as they are.

use linkerd_proxy_core::transport::{Duplex, Pipes, relay};

/// The end of a relayed connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum RelayEnd {
    /// Both sides have ended their stream.
    Complete,
    /// One side has broken off, such as by a reset, which was passed on to the other.
    BrokenOff,
}

/// Relays a connection until both sides have ended.
pub async fn relay_connection(
    client: &mut impl Duplex,
    server: &mut impl Duplex,
    pipes: &Pipes,
) -> RelayEnd {
    match relay(client, server, pipes).await {
        Ok((sent, received)) => {
            tracing::debug!(sent, received, "opaque connection ended");
            RelayEnd::Complete
        }
        Err(error) => {
            tracing::debug!(%error, "opaque connection broke off");
            RelayEnd::BrokenOff
        }
    }
}

/// The label `error` of connections that broke off, as the incumbent has it.
pub const BROKEN_OFF: &str = "i/o";
