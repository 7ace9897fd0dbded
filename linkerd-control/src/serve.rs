use crate::authority::{Authority, AuthorityError};
use crate::grpc::Api;
use crate::identity::IdentityApi;
use crate::state::ControllerState;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use linkerd_api_proto::destination::destination_server::DestinationServer;
use linkerd_api_proto::identity::identity_server::IdentityServer;
use linkerd_api_proto::inbound::inbound_server_policies_server::InboundServerPoliciesServer;
use linkerd_api_proto::outbound::outbound_policies_server::OutboundPoliciesServer;
use rustls::ServerConfig;
use socket2::{SockRef, TcpKeepalive};
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tower_service::Service;

/// A listening socket that serves a controller. Dropping the server stops it in the background.
pub struct Server {
    addr: SocketAddr,
    state: Arc<ControllerState>,
    stop: watch::Sender<()>,
    tls: watch::Sender<Option<Arc<ServerConfig>>>,
}

impl Server {
    /// The address of the listener.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Serves later connections over TLS with a new certificate of `authority` for `names`, which are not issued to proxies.
    pub fn renew_tls(
        &self,
        authority: &Authority,
        names: &[impl AsRef<str>],
    ) -> Result<(), AuthorityError> {
        let config = authority.server(names)?;
        self.state.identity.lock().reserved.add(names);
        self.tls.send_replace(Some(config));
        Ok(())
    }

    /// Drops all connections, streams and the listener at once, like a crash. They are closed when this returns. The
    /// state remains, and can be served again on the same address.
    pub async fn kill(self) {
        self.stop.send_replace(());
        // Each task holds a receiver.
        self.stop.closed().await;
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = &mut f.debug_struct("Server");
        server.field("addr", &self.addr).finish_non_exhaustive()
    }
}

/// Spawns a connection's tasks, which end with the server.
#[derive(Clone)]
struct StopWith(watch::Receiver<()>);

impl<F> hyper::rt::Executor<F> for StopWith
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, task: F) {
        let mut stop = self.0.clone();
        tokio::spawn(async move {
            tokio::select! {
                _ = stop.changed() => {}
                _ = task => {}
            }
        });
    }
}

pub(crate) fn serve(
    state: Arc<ControllerState>,
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
) -> io::Result<Server> {
    let addr = listener.local_addr()?;
    let (stop, stopped) = watch::channel(());
    let (tls, present) = watch::channel(tls);
    let served = state.clone();
    tokio::spawn(async move {
        let mut until = stopped.clone();
        tokio::select! {
            _ = until.changed() => {}
            () = accept(served, listener, present, stopped) => {}
        }
    });
    Ok(Server {
        addr,
        state,
        stop,
        tls,
    })
}

async fn accept(
    state: Arc<ControllerState>,
    listener: TcpListener,
    tls: watch::Receiver<Option<Arc<ServerConfig>>>,
    stop: watch::Receiver<()>,
) {
    let permits = Arc::new(Semaphore::new(state.limits.connections));
    while let Ok(permit) = permits.clone().acquire_owned().await {
        let (socket, client) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Usually file descriptors have run out: others must be closed first.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (state, tls) = (state.clone(), tls.borrow().clone());
        let counted = state.connections.clone();
        let mut stop = stop.clone();
        tokio::spawn(async move {
            let until = stop.clone();
            tokio::select! {
                _ = stop.changed() => {}
                () = connection(state, (socket, client), tls, until) => {}
            }
            drop((permit, counted));
        });
    }
}

async fn connection(
    state: Arc<ControllerState>,
    (socket, client): (TcpStream, SocketAddr),
    tls: Option<Arc<ServerConfig>>,
    stop: watch::Receiver<()>,
) {
    // The place of a proxy that is lost without a close must be freed: by TCP keepalive and not by HTTP/2 pings, whose timers
    // would expire at once if a test has paused the clock.
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE)
        .with_interval(KEEPALIVE);
    let set = SockRef::from(&socket).set_tcp_keepalive(&keepalive);
    if let Err(error) = set.and_then(|()| socket.set_nodelay(true)) {
        tracing::debug!(%error, "cannot set the options of a proxy's connection");
    }
    let Some(tls) = tls else {
        return serve_proxy(state, socket, client, stop).await;
    };
    let accepting = TlsAcceptor::from(tls).accept(socket);
    match tokio::time::timeout(HANDSHAKE_TIMEOUT, accepting).await {
        Ok(Ok(stream)) => serve_proxy(state, stream, client, stop).await,
        Ok(Err(error)) => tracing::debug!(%error, "the TLS handshake of a proxy failed"),
        Err(_) => tracing::debug!("the TLS handshake of a proxy did not end"),
    }
}

/// Serves the APIs to a proxy until its connection ends.
async fn serve_proxy(
    state: Arc<ControllerState>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    client: SocketAddr,
    stop: watch::Receiver<()>,
) {
    let streams = state.limits.streams_per_connection;
    let identity = IdentityServer::new(IdentityApi::new(state.clone(), client));
    let identity = identity.max_decoding_message_size(MAX_REQUEST);
    let api = Api::new(state);
    let destination = DestinationServer::new(api.clone()).max_decoding_message_size(MAX_REQUEST);
    let servers =
        InboundServerPoliciesServer::new(api.clone()).max_decoding_message_size(MAX_REQUEST);
    let policies = OutboundPoliciesServer::new(api).max_decoding_message_size(MAX_REQUEST);
    let service = service_fn(move |request: Request<Incoming>| {
        // Each generated server answers `UNIMPLEMENTED` to unknown methods.
        match request.uri().path() {
            path if path.starts_with(DESTINATION) => destination.clone().call(request),
            path if path.starts_with(SERVERS) => servers.clone().call(request),
            path if path.starts_with(IDENTITY) => identity.clone().call(request),
            _ => policies.clone().call(request),
        }
    });
    let served = http2::Builder::new(StopWith(stop))
        .max_concurrent_streams(streams)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = served.await {
        tracing::debug!(%error, "a proxy's connection failed");
    }
}

const IDENTITY: &str = "/io.linkerd.proxy.identity.Identity/";
const DESTINATION: &str = "/io.linkerd.proxy.destination.Destination/";
const SERVERS: &str = "/io.linkerd.proxy.inbound.InboundServerPolicies/";

/// The largest request: a look-up is a name and a token, so this is generous.
const MAX_REQUEST: usize = 64 * 1024;

/// The limit of a handshake: a proxy that stalls makes room for another.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The pause after a failed accept, which must not become a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The keepalive interval: long compared to a round trip, short compared to the life of a proxy.
const KEEPALIVE: Duration = Duration::from_secs(30);
