//! The connection to an endpoint, to an application, or to a controller.

use super::{Dialer, Io, TransportSeries, TransportStream};
use crate::{Error, Reason, tls::MeshClient};
use futures::future::LocalBoxFuture;
use std::{
    net::SocketAddr,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tower_service::Service;

/// Connects to one address.
///
/// - **Waits for** the connect timeout at most, TLS included.
/// - **Fails as** the [`Dialer`] and [`MeshClient`], before anything is sent.
/// - **Metrics**: `tcp_*{peer="dst"}`.
#[derive(Clone, Debug)]
pub struct Connect {
    /// The address.
    pub addr: SocketAddr,
    /// Dials the address.
    pub dialer: Arc<Dialer>,
    /// Encrypts the connections; `None` leaves them plain.
    pub tls: Option<Arc<MeshClient>>,
    /// Counts the connections.
    pub series: Arc<TransportSeries>,
}

impl Service<()> for Connect {
    type Response = Io;
    type Error = Error;
    type Future = LocalBoxFuture<'static, Result<Io, Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, (): ()) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let stream = connect(&this.dialer, this.addr, this.tls.as_deref()).await?;
            Ok(Io::new(stream, this.series))
        })
    }
}

/// Dials `addr`, and encrypts the connection if `tls` is given, within the connect timeout.
pub async fn connect(
    dialer: &Dialer,
    addr: SocketAddr,
    tls: Option<&MeshClient>,
) -> Result<TransportStream, Error> {
    match tls {
        None => dialer.connect(addr).await,
        // In a box: plain connections would have to reserve space for the handshake.
        Some(tls) => Box::pin(connect_encrypted(dialer, addr, tls)).await,
    }
}

async fn connect_encrypted(
    dialer: &Dialer,
    addr: SocketAddr,
    tls: &MeshClient,
) -> Result<TransportStream, Error> {
    let timeout = dialer.options.timeout;
    let connecting = async {
        tls.ready().await?;
        let stream = dialer.connect(addr).await?;
        tls.encrypt(stream).await.map_err(|error| error.peer(addr))
    };
    match tokio::time::timeout(timeout, connecting).await {
        Ok(connected) => connected,
        Err(_) => Err(timed_out(timeout, tls).peer(addr)),
    }
}

fn timed_out(timeout: Duration, tls: &MeshClient) -> Error {
    match tls.is_ready() {
        true => {
            let detail = format!("connect and TLS handshake timed out after {timeout:?}");
            Error::new(Reason::ConnectTimeout).detail(detail)
        }
        false => Error::new(Reason::NoCertificate),
    }
}
