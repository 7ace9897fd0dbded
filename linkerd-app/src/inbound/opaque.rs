//! Stage 5 of connections that are not HTTP: relayed to the application, and searched for a request line.

use super::{
    Inbound, application::Application, policy::PolicySnapshot, proxy_protocol::ProxyHeader,
};
use crate::server::{BROKEN_OFF, FoundRequest, RelayEnd, relay_connection, relay_until_request};
use linkerd_profiles::ServerProtocol;
use linkerd_proxy_core::{
    Error, Reason,
    tls::TlsStatus,
    transport::{ClientInfo, Detected, Io, Lookalikes, RequestScan, classify},
};
use std::{net::SocketAddr, pin::pin};
use tower_service::Service;

impl Inbound {
    /// Whether connections to the application begin with a header of the PROXY protocol. These are always opaque, whatever the
    /// policy or a peer proxy says: the header is no part of HTTP.
    pub(super) fn has_proxy_header(&self, destination: SocketAddr) -> bool {
        let ports = &self.ctx.config.inbound.proxy_protocol_ports;
        ports.contains(&destination.port())
    }

    /// Whether request lines are searched in a connection that is not HTTP: unless its port is declared opaque, and unless its
    /// bytes are encrypted for the application.
    pub(super) fn is_searched(
        &self,
        policy: &PolicySnapshot,
        client: &ClientInfo,
        destination: SocketAddr,
    ) -> bool {
        let protocol = &policy.policy().protocol;
        !matches!(protocol, ServerProtocol::Opaque | ServerProtocol::Tls)
            && !matches!(client.tls, TlsStatus::Passthrough { .. })
            && !self.has_proxy_header(destination)
    }

    /// Relays to `server`, or to a new connection, for as long as the policy lets the client in, and until `scan` finds a request.
    pub(super) async fn opaque(
        &self,
        io: &mut Io,
        server: Option<Io>,
        scan: Option<RequestScan>,
        application: &Application,
        client: SocketAddr,
        tls: &TlsStatus,
    ) -> Result<Result<(), FoundRequest>, Error> {
        let policy = application.policy();
        policy.admit(client, tls)?.count();
        let mut revoked = pin!(policy.revoked(client, tls));
        let mut server = match server {
            Some(server) => server,
            None => application.connect().call(()).await?,
        };
        if self.has_proxy_header(application.addr()) {
            let header = ProxyHeader {
                client,
                destination: application.addr(),
                tls,
            };
            // Boxed: rarely needed, and it would enlarge the future of every connection.
            if let Err(error) = Box::pin(header.send(&mut server)).await {
                tracing::debug!(%error, "the application did not take the PROXY header");
                return Ok(Ok(()));
            }
        }
        let pipes = &self.ctx.pipes;
        let relayed = async {
            match scan {
                Some(scan) => relay_until_request(io, &mut server, pipes, scan).await,
                None => Ok(relay_connection(io, &mut server, pipes).await),
            }
        };
        let end = tokio::select! {
            end = relayed => end,
            error = &mut revoked => return Err(error),
        };
        if let Ok(RelayEnd::BrokenOff) = end {
            self.ctx.count_tcp_error(application.addr(), BROKEN_OFF);
        }
        Ok(end.map(drop))
    }

    /// Puts the bytes of a request back that was found in a connection; its protocol. Fails if they cannot be read again.
    pub(super) fn replayed(io: &mut Io, found: FoundRequest) -> Result<Detected, Error> {
        let Some(bytes) = found.replay else {
            return Err(Reason::HiddenRequest.into());
        };
        let protocol = classify(&bytes, Lookalikes::Http);
        io.put_back(bytes);
        // A line that has ended with its connection is undecided.
        Ok(protocol.unwrap_or(Detected::Http1))
    }
}
