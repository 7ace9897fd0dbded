//! Connections to a controller.

use futures::future::LocalBoxFuture;
use linkerd_proxy_core::{
    Error,
    tls::MeshClient,
    transport::{Dialer, TransportStream, connect},
};
use std::{
    cell::Cell,
    net::SocketAddr,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
};
use tower_service::Service;

/// Dials one address of a controller, and logs when that begins to fail and when it succeeds again. Unlike the outbound
/// side it may dial loopback.
#[derive(Clone, Debug)]
pub(super) struct Connect {
    /// The role and name of the controller.
    controller: Rc<str>,
    addr: SocketAddr,
    dialer: Arc<Dialer>,
    tls: Option<Arc<MeshClient>>,
    /// Whether the last attempt failed.
    failing: Rc<Cell<bool>>,
}

impl Connect {
    pub(super) fn new(
        controller: Rc<str>,
        addr: SocketAddr,
        dialer: Arc<Dialer>,
        tls: Option<Arc<MeshClient>>,
    ) -> Self {
        Self {
            controller,
            addr,
            dialer,
            tls,
            failing: Rc::default(),
        }
    }

    fn log(&self, attempt: &Result<TransportStream, Error>) {
        let (controller, addr) = (&self.controller, self.addr);
        match (attempt, self.failing.replace(attempt.is_err())) {
            (Err(error), false) => {
                tracing::warn!(%controller, %addr, %error, "The control plane cannot be reached; trying on");
            }
            (Ok(_), true) => {
                tracing::info!(%controller, %addr, "The control plane can be reached again");
            }
            (Err(_), true) | (Ok(_), false) => {}
        }
    }
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
        Box::pin(async move {
            let attempt = connect(&this.dialer, this.addr, this.tls.as_deref()).await;
            this.log(&attempt);
            attempt
        })
    }
}
