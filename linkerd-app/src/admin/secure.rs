//! TLS of the mesh on the ports of the control thread.

use crate::{identity::MeshIdentity, inbound::Handshakes};
use bytes::Bytes;
use linkerd_proxy_core::{
    Error, Reason, drain,
    tls::{FirstBytes, NoClientHello, NoTlsReason, TlsStatus, read_client_hello},
    transport::TransportStream,
};
use std::{net::IpAddr, pin::pin, time::Duration};

/// Terminates TLS that is for this proxy; a connection without TLS stays as it is, with the bytes that were read.
///
/// `limits` are those of the client's first message, and of its handshake. Fails as `TlsDetectionTimeout`, `ClientTlsFailed`,
/// `NoCertificate`, `HandshakeLimit`.
pub(crate) async fn secure(
    mesh: &MeshIdentity,
    handshakes: &Handshakes,
    (mut stream, client): (TransportStream, IpAddr),
    limits: (Duration, Duration),
    drain: &mut drain::Watch,
) -> Result<(TransportStream, Bytes, TlsStatus), Error> {
    let (detect, timeout) = limits;
    let server = mesh.server();
    let FirstBytes { read, hello } =
        read_client_hello(&mut stream, detect, drain, std::future::pending).await?;
    let hello = match hello {
        Ok(hello) if server.is_asked_for(&hello) => hello,
        Ok(hello) => {
            let detail = format!("TLS is for {}, not for this proxy", hello.server_name);
            return Err(Error::new(Reason::ClientTlsFailed).detail(detail));
        }
        Err(late @ NoClientHello::TimedOut(_)) => {
            return Err(Error::new(Reason::TlsDetectionTimeout).detail(late.to_string()));
        }
        Err(_) => return Ok((stream, read, PLAIN)),
    };
    let handshake = handshakes.begin(client);
    let terminating = pin!(server.terminate(hello, stream, false));
    let terminated = tokio::select! {
        biased;
        terminated = tokio::time::timeout(timeout, terminating) => terminated,
        error = handshake.displaced() => return Err(error),
    };
    let terminated = terminated.map_err(|_| {
        let late = match server.has_certificate() {
            true => Reason::ClientTlsFailed,
            false => Reason::NoCertificate,
        };
        Error::new(late).detail(format!("timed out after {timeout:?}"))
    })??;
    Ok((terminated.stream, Bytes::new(), terminated.status))
}

/// The status of a connection without TLS.
pub(super) const PLAIN: TlsStatus = TlsStatus::None(NoTlsReason::NoTlsFromRemote);
