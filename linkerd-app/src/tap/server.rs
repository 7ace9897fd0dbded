//! The tap server: the Tap API on the control port, for one client of the mesh.

use super::{
    api::{TapApi, TapClient},
    registry::{MAX_CONNECTIONS, TapRegistry},
};
use crate::{
    admin::{BusyBody, secure},
    identity::MeshIdentity,
    inbound::Handshakes,
};
use bytes::Bytes;
use hyper::{Request, body::Incoming, service::service_fn};
use linkerd_api_proto::tap::tap_server::TapServer as TapService;
use linkerd_proxy_core::{
    BoxError,
    crowd::Crowd,
    drain,
    http::{Connection, HalfSent, Http2Settings, ServerSettings, serve_http2},
    metrics::{Labels, Registry},
    task::spawn_local,
    tls::{Identity, NoTlsReason, TlsStatus},
    transport::{AcceptErrors, Io, Socket, SocketOptions, TransportMetrics},
};
use std::{net::SocketAddr, rc::Rc, time::Duration};
use tokio::net::{TcpListener, TcpStream};
use tower_service::Service;

/// The tap server.
///
/// - **Waits for** a client's first message [`DETECT_TIMEOUT`], for its handshake [`HANDSHAKE_TIMEOUT`].
/// - **Fails as** `UNAUTHENTICATED` for every client but one.
/// - **Bounds**: connections, those of the registry; a client that may not tap has [`REFUSED_LIFE`].
pub struct TapServer {
    /// The taps.
    pub registry: TapRegistry,
    /// The identity of the only client.
    pub client: Identity,
    /// The identity of the proxy; `None`: no client can be authorized.
    pub mesh: Option<MeshIdentity>,
    /// Options of accepted sockets.
    pub accept: SocketOptions,
}

impl TapServer {
    /// Serves until drain is signalled. Must run on a local runtime (`spawn_local`).
    pub async fn serve(self, listener: std::net::TcpListener, mut drain: drain::Watch) {
        let listener = listener
            .set_nonblocking(true)
            .and_then(|()| TcpListener::from_std(listener));
        let listener = match listener {
            Ok(listener) => listener,
            Err(error) => {
                tracing::error!(%error, "Tap server failed to start");
                return;
            }
        };
        let server = Rc::new(self);
        let crowd = Rc::new(Crowd::new(MAX_CONNECTIONS));
        let mut errors = AcceptErrors::default();
        loop {
            let accepted = tokio::select! {
                biased;
                () = drain.signaled() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let server = server.clone();
                    server.accepted(crowd.clone(), stream, peer, drain.clone());
                }
                Err(error) => {
                    errors.log(&error);
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Serves a connection, until others need its place.
    fn accepted(
        self: Rc<Self>,
        crowd: Rc<Crowd>,
        stream: TcpStream,
        peer: SocketAddr,
        drain: drain::Watch,
    ) {
        spawn_local(async move {
            let place = crowd.enter(peer.ip());
            let counted = self.registry.connected();
            let served = tokio::select! {
                served = self.connection(stream, peer, drain) => served,
                () = place.displaced() => Err("others needed its place".into()),
            };
            if let Err(error) = served {
                tracing::debug!(client.addr = %peer, %error, "Connection closed");
            }
            drop(counted);
        });
    }

    async fn connection(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        mut drain: drain::Watch,
    ) -> Result<(), BoxError> {
        self.accept.apply(&stream);
        let stream = Socket::from(stream).into();
        let (stream, read, tls) = match &self.mesh {
            None => (stream, Bytes::new(), PLAIN),
            Some(mesh) => {
                // Bounded by the connections.
                let handshakes = Handshakes::default();
                let limits = (DETECT_TIMEOUT, HANDSHAKE_TIMEOUT);
                secure(mesh, &handshakes, (stream, peer.ip()), limits, &mut drain).await?
            }
        };
        let uncounted = TransportMetrics::register(&Registry::new()).series(Labels::new());
        let mut io = Io::new(stream, uncounted);
        io.put_back(read);
        let client = self.client(&tls, peer);
        let is_refused = matches!(client, TapClient::Refused(_));
        let life = until_cut_off(is_refused, drain.clone());
        tokio::select! {
            served = self.requests(io, client, drain) => served,
            () = life => Err("it is cut off".into()),
        }
    }

    async fn requests(
        &self,
        io: Io,
        client: TapClient,
        drain: drain::Watch,
    ) -> Result<(), BoxError> {
        let api = TapService::new(TapApi::new(self.registry.clone(), client));
        let api = api.max_decoding_message_size(MAX_REQUEST);
        let connection = Rc::new(Connection::default());
        let busy = connection.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let (busy, mut api) = (busy.busy(), api.clone());
            async move {
                let response = api.call(request).await;
                let Ok(response) = response;
                Ok::<_, h2::Error>(response.map(|body| BusyBody::new(body, busy)))
            }
        });
        let settings = ServerSettings {
            header_timeout: HANDSHAKE_TIMEOUT,
            http2: Http2Settings {
                max_concurrent_streams: Some(MAX_STREAMS),
                ..Http2Settings::default()
            },
            half_sent: HalfSent::default(),
        };
        serve_http2(io, service, &settings, connection, drain).await?;
        Ok(())
    }

    /// The client by its certificate.
    fn client(&self, tls: &TlsStatus, peer: SocketAddr) -> TapClient {
        match tls {
            TlsStatus::Meshed(Some(identity)) if *identity == self.client => {
                TapClient::Authorized(format!("{identity} {peer}"))
            }
            TlsStatus::Meshed(_) | TlsStatus::Passthrough { .. } => {
                TapClient::Refused("Unauthorized client")
            }
            TlsStatus::None(reason) => TapClient::Refused(reason.label()),
        }
    }
}

/// The longest life of a connection: [`REFUSED_LIFE`] for a client that may not tap, else [`FINISH_WITHIN`] after drain.
async fn until_cut_off(is_refused: bool, mut drain: drain::Watch) {
    if is_refused {
        return tokio::time::sleep(REFUSED_LIFE).await;
    }
    drain.signaled().await;
    tokio::time::sleep(FINISH_WITHIN).await;
}

const PLAIN: TlsStatus = TlsStatus::None(NoTlsReason::NoTlsFromRemote);

/// Limit for the first bytes of a client, as the incumbent has it.
const DETECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Limit for a handshake, and for the head of a request.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for a client that may not tap to read the reason.
const REFUSED_LIFE: Duration = Duration::from_secs(10);

/// Time after drain was signalled for a client to read its last events. A client that does not must not delay the shutdown.
const FINISH_WITHIN: Duration = Duration::from_secs(5);

/// Pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Taps are fewer.
const MAX_STREAMS: u32 = 16;

/// A condition has some hundred bytes.
const MAX_REQUEST: usize = 64 * 1024;
