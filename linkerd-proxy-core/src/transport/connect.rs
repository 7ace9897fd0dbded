//! The connection to an endpoint, or to an application.

use super::{Dialer, Io, TransportSeries};
use crate::Error;
use futures::future::LocalBoxFuture;
use std::{
    net::SocketAddr,
    sync::Arc,
    task::{Context, Poll},
};
use tower_service::Service;

/// Connects to one address.
///
/// - **Waits for** the connect timeout at most.
/// - **Fails as** the [`Dialer`], before anything is sent.
/// - **Metrics**: `tcp_*{peer="dst"}`.
#[derive(Clone, Debug)]
pub struct Connect {
    /// The address.
    pub addr: SocketAddr,
    /// Dials it.
    pub dialer: Arc<Dialer>,
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
            let stream = this.dialer.connect(this.addr).await?;
            Ok(Io::new(stream, this.series))
        })
    }
}
