//! Connections to a controller.

use futures::future::LocalBoxFuture;
use linkerd_proxy_core::{
    Error,
    tls::MeshClient,
    transport::{Dialer, TransportStream, connect},
};
use std::{
    net::SocketAddr,
    sync::Arc,
    task::{Context, Poll},
};
use tower_service::Service;

/// Dials one address of a controller. Unlike the outbound side it may dial loopback.
#[derive(Clone, Debug)]
pub(super) struct Connect {
    pub(super) addr: SocketAddr,
    pub(super) dialer: Arc<Dialer>,
    pub(super) tls: Option<Arc<MeshClient>>,
}

impl Service<()> for Connect {
    type Response = TransportStream;
    type Error = Error;
    type Future = LocalBoxFuture<'static, Result<TransportStream, Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, (): ()) -> Self::Future {
        let this = self.clone();
        Box::pin(async move { connect(&this.dialer, this.addr, this.tls.as_deref()).await })
    }
}
