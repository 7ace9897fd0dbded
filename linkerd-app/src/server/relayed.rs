//! Connections whose bytes are relayed as they are.

use bytes::Bytes;
use linkerd_proxy_core::transport::{Duplex, Pipes, Relayed, RequestScan, relay};

/// The end of a relayed connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum RelayEnd {
    /// Both sides have ended their stream.
    Complete,
    /// One side has broken off, such as by a reset, which was passed on to the other.
    BrokenOff,
}

/// A request line that a client sent in a relayed connection. The server did not get its end.
#[derive(Debug)]
pub struct FoundRequest {
    /// All bytes of the client, if they can be read again.
    pub replay: Option<Bytes>,
}

/// Relays a connection until both sides have ended.
pub async fn relay_connection(
    client: &mut impl Duplex,
    server: &mut impl Duplex,
    pipes: &Pipes,
) -> RelayEnd {
    // Nothing is found where nothing is searched.
    let ended = relayed(client, server, pipes, None).await;
    ended.unwrap_or(RelayEnd::BrokenOff)
}

/// Relays a connection until both sides have ended, or until `scan` finds a request line of the client.
pub async fn relay_until_request(
    client: &mut impl Duplex,
    server: &mut impl Duplex,
    pipes: &Pipes,
    scan: RequestScan,
) -> Result<RelayEnd, FoundRequest> {
    relayed(client, server, pipes, Some(scan)).await
}

async fn relayed(
    client: &mut impl Duplex,
    server: &mut impl Duplex,
    pipes: &Pipes,
    scan: Option<RequestScan>,
) -> Result<RelayEnd, FoundRequest> {
    match relay(client, server, pipes, scan).await {
        Ok(Relayed::Ended { sent, received }) => {
            tracing::debug!(sent, received, "opaque connection ended");
            Ok(RelayEnd::Complete)
        }
        Ok(Relayed::Request { replay }) => Err(FoundRequest { replay }),
        Err(error) => {
            tracing::debug!(%error, "opaque connection broke off");
            Ok(RelayEnd::BrokenOff)
        }
    }
}

/// The label `error` of connections that broke off, as the incumbent has it.
pub const BROKEN_OFF: &str = "i/o";
