//! Stage 2: the encryption of a client's connection.
//!
//! TLS for the name of this proxy is terminated; TLS for another name is passed through, and other connections stay as they are.
//! A connection to the proxy's own port (a direct one) must come from another proxy, whose transport header names the
//! destination.
//!
//! - **Waits for** the client and for the first certificate of this proxy, each at most for the detect timeout.
//! - **Fails as** `TlsDetectionTimeout`, `ClientTlsFailed`, `NoCertificate`, `HandshakeLimit`; direct connections also as
//!   `NotMeshed`, `NoTransportHeader`, `Loop`.
//! - **Bounds**: handshakes that have begun and not ended.
//! - **Metrics**: `inbound_tcp_transport_header_connections_total`.

use super::{context::Context, gateway_name::GatewayName};
use crate::identity::MeshIdentity;
use bytes::Bytes;
use linkerd_proxy_core::{
    Error, Reason,
    metrics::Labels,
    tls::{
        ClientHello, FirstBytes, MeshServer, NoClientHello, PeerChain, SessionProtocol, Terminated,
        TlsStatus, TransportHeader, read_client_hello,
    },
    transport::{ClientInfo, Detected, Duplex, TransportStream},
};
use std::{
    future::poll_fn,
    net::{IpAddr, SocketAddr},
    pin::pin,
    rc::Rc,
    time::{Duration, SystemTime},
};
use tokio::time::Instant;

/// A client's connection whose encryption is known.
pub struct SecuredConnection {
    /// The connection, decrypted if this proxy is its other end.
    pub stream: TransportStream,
    /// Bytes that were read from it already.
    pub read: Bytes,
    /// The client, with the status of its encryption.
    pub client: Rc<ClientInfo>,
    /// The address that the connection is for.
    pub destination: SocketAddr,
    /// Its protocol, as far as it is known.
    pub protocol: KnownProtocol,
    /// The service for which this proxy is the gateway, if any. The protocol is known then.
    pub gateway: Option<Box<GatewayName>>,
}

/// The protocol of a connection, as far as it is known after TLS detection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownProtocol {
    /// Not known.
    Unknown,
    /// The client was silent for the detect timeout: it may wait for the application to speak first.
    Silent,
    /// A peer proxy named no protocol. The peer may be no proxy: requests are searched in its bytes all the same.
    SaidOpaque,
    /// This protocol: a peer proxy named it, or TLS is passed through.
    Is(Detected),
}

impl KnownProtocol {
    /// The protocol that a peer proxy named; opaque if none.
    pub fn said(self) -> Detected {
        match self {
            Self::Is(protocol) => protocol,
            Self::SaidOpaque | Self::Silent | Self::Unknown => Detected::Opaque,
        }
    }
}

/// The failures of peers that are no clients of the mesh, or not yet: without a line, an operator whose certificates do not match
/// sees nothing in the log.
pub const FAILURES: &[Reason] = &[
    Reason::TlsDetectionTimeout,
    Reason::ClientTlsFailed,
    Reason::NoCertificate,
    Reason::HandshakeLimit,
    Reason::NotMeshed,
    Reason::NoTransportHeader,
];

/// Detects the encryption of a connection to the application, and terminates it if it is for this proxy.
pub async fn secure(
    ctx: &Context,
    mesh: &MeshIdentity,
    mut stream: TransportStream,
    client: Rc<ClientInfo>,
    destination: SocketAddr,
) -> Result<SecuredConnection, Error> {
    let FirstBytes { read, hello } = first_bytes(ctx, &mut stream, &client).await?;
    let server = mesh.server();
    match hello {
        Ok(hello) if server.is_asked_for(&hello) => {
            let source = client.addr.ip();
            let terminated = terminate(ctx, server, hello, (stream, source), false).await?;
            Ok(SecuredConnection {
                client: meshed(ctx, server, &client, terminated.status, terminated.peer),
                stream: terminated.stream,
                read: Bytes::new(),
                destination,
                protocol: KnownProtocol::Unknown,
                gateway: None,
            })
        }
        Ok(hello) => {
            let names = &ctx.server_names;
            let server_name = names.label(destination, &hello.server_name, Instant::now());
            Ok(SecuredConnection {
                client: with_tls(&client, TlsStatus::Passthrough { server_name }),
                stream,
                read,
                destination,
                protocol: KnownProtocol::Is(Detected::Opaque),
                gateway: None,
            })
        }
        Err(NoClientHello::TimedOut(timeout)) if !read.is_empty() => Err(timed_out(timeout)),
        Err(NoClientHello::TimedOut(_)) => Ok(silent(ctx, stream, client, destination)),
        Err(_) => Ok(SecuredConnection {
            read,
            ..SecuredConnection::plain(stream, client, destination)
        }),
    }
}

/// Detects the encryption of a connection to an application whose clients were silent before. A peer proxy sends at once, and
/// gives up a connection that is not encrypted after its connect timeout: a client that is silent for longer is no peer proxy.
pub async fn secure_expected_silent(
    ctx: &Context,
    mesh: &MeshIdentity,
    mut stream: TransportStream,
    client: Rc<ClientInfo>,
    destination: SocketAddr,
) -> Result<SecuredConnection, Error> {
    let begins = poll_fn(|cx| stream.poll_received(cx));
    let wait = ctx.config.inbound.detect_timeout.min(PEER_CONNECT_TIMEOUT);
    match tokio::time::timeout(wait, begins).await {
        Ok(()) => secure(ctx, mesh, stream, client, destination).await,
        Err(_) => Ok(silent(ctx, stream, client, destination)),
    }
}

/// A connection whose client is silent. It goes on, though it is counted as by the incumbent, which closes it.
fn silent(
    ctx: &Context,
    stream: TransportStream,
    client: Rc<ClientInfo>,
    destination: SocketAddr,
) -> SecuredConnection {
    ctx.count_tcp_error(destination, Reason::TlsDetectionTimeout.error_label());
    SecuredConnection {
        protocol: KnownProtocol::Silent,
        ..SecuredConnection::plain(stream, client, destination)
    }
}

fn timed_out(timeout: Duration) -> Error {
    let detail = format!("the client's first message was not whole after {timeout:?}");
    Error::new(Reason::TlsDetectionTimeout).detail(detail)
}

/// Terminates the encryption of a connection to the proxy's own port, and reads its transport header.
pub async fn secure_direct(
    ctx: &Context,
    mesh: &MeshIdentity,
    mut stream: TransportStream,
    client: Rc<ClientInfo>,
    own: SocketAddr,
) -> Result<SecuredConnection, Error> {
    let not_meshed = || Error::new(Reason::NotMeshed);
    let first = first_bytes(ctx, &mut stream, &client).await?;
    let hello = first.hello.map_err(|none| match none {
        NoClientHello::TimedOut(timeout) => timed_out(timeout),
        _ => not_meshed(),
    })?;
    let server = mesh.server();
    if !server.is_asked_for(&hello) {
        return Err(not_meshed());
    }
    let source = client.addr.ip();
    let mut terminated = terminate(ctx, server, hello, (stream, source), true).await?;
    if terminated.status.identity().is_none() {
        return Err(not_meshed());
    }
    if !terminated.has_header {
        return Err(Error::new(Reason::NoTransportHeader));
    }
    let reading = TransportHeader::read(&mut terminated.stream);
    let (header, read) = in_time(ctx, reading, Reason::NoTransportHeader).await?;
    count(ctx, &header, &terminated.status);
    let port = header.port.get();
    let gateway = header.name.map(|name| Box::new(GatewayName { name, port }));
    // A gateway's clients are let in by the policy of its own port.
    let destination = match gateway {
        Some(_) => own,
        None => SocketAddr::new(own.ip(), port),
    };
    if gateway.is_none() && port == own.port() {
        let detail = "the transport header names the port of this proxy";
        return Err(Error::new(Reason::Loop).detail(detail));
    }
    Ok(SecuredConnection {
        client: meshed(ctx, server, &client, terminated.status, terminated.peer),
        stream: terminated.stream,
        read,
        destination,
        protocol: match header.protocol {
            None => KnownProtocol::SaidOpaque,
            Some(SessionProtocol::Http1) => KnownProtocol::Is(Detected::Http1),
            Some(SessionProtocol::Http2) => KnownProtocol::Is(Detected::Http2),
        },
        gateway,
    })
}

impl SecuredConnection {
    /// A connection without encryption.
    pub fn plain(stream: TransportStream, client: Rc<ClientInfo>, destination: SocketAddr) -> Self {
        Self {
            stream,
            read: Bytes::new(),
            client,
            destination,
            protocol: KnownProtocol::Unknown,
            gateway: None,
        }
    }
}

async fn first_bytes(
    ctx: &Context,
    stream: &mut TransportStream,
    client: &ClientInfo,
) -> Result<FirstBytes, Error> {
    let timeout = ctx.config.inbound.detect_timeout;
    let mut drain = client.listener.drain().watch();
    let source = client.addr.ip();
    let begun = || async move { ctx.handshakes.begin_hello(source).displaced().await };
    read_client_hello(stream, timeout, &mut drain, begun).await
}

async fn terminate(
    ctx: &Context,
    server: &MeshServer,
    hello: ClientHello,
    (stream, source): (TransportStream, IpAddr),
    asks_for_header: bool,
) -> Result<Terminated, Error> {
    let handshake = ctx.handshakes.begin(source);
    // Pinned here: the future is large, and would be moved.
    let terminating = pin!(server.terminate(hello, stream, asks_for_header));
    let late = match server.has_certificate() {
        true => Reason::ClientTlsFailed,
        false => Reason::NoCertificate,
    };
    tokio::select! {
        biased;
        terminated = in_time(ctx, terminating, late) => terminated,
        error = handshake.displaced() => Err(error),
    }
}

/// Waits for `future`, at most for the detect timeout; then fails as `late`.
async fn in_time<T>(
    ctx: &Context,
    future: impl Future<Output = Result<T, Error>>,
    late: Reason,
) -> Result<T, Error> {
    let timeout: Duration = ctx.config.inbound.detect_timeout;
    match tokio::time::timeout(timeout, future).await {
        Ok(result) => result,
        Err(_) => Err(Error::new(late).detail(format!("timed out after {timeout:?}"))),
    }
}

/// The client of a connection whose TLS was terminated. Its context ends with the trust in its certificates.
fn meshed(
    ctx: &Context,
    server: &MeshServer,
    client: &ClientInfo,
    tls: TlsStatus,
    peer: Option<PeerChain>,
) -> Rc<ClientInfo> {
    let listener = match peer {
        Some(peer) => {
            let credentials = server.credentials();
            ctx.peers.join(client, peer, credentials, SystemTime::now())
        }
        None => client.listener.clone(),
    };
    Rc::new(ClientInfo {
        tls,
        listener,
        ..client.clone()
    })
}

fn with_tls(client: &ClientInfo, tls: TlsStatus) -> Rc<ClientInfo> {
    Rc::new(ClientInfo {
        tls,
        ..client.clone()
    })
}

fn count(ctx: &Context, header: &TransportHeader, tls: &TlsStatus) {
    let protocol = header.protocol.map_or("", SessionProtocol::label);
    let client = tls.identity().map(ToString::to_string).unwrap_or_default();
    let labels = Labels::new()
        .with("session_protocol", protocol)
        .with("target_port", header.port)
        .with("target_name", header.name.as_deref().unwrap_or_default())
        .with("client_id", client);
    let family = &ctx.families.inbound.transport_headers;
    family.get(labels).incr();
}

/// The connect timeout of proxies (`LINKERD2_PROXY_OUTBOUND_CONNECT_TIMEOUT`), which covers the handshake.
const PEER_CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
