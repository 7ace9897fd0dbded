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
    time::Duration,
};
use tokio::time::Instant;
use tower_service::Service;

/// Dials one address of a controller, and logs when that begins to fail, once a minute while it fails, and when it succeeds
/// again. Unlike the outbound side it may dial loopback.
#[derive(Clone, Debug)]
pub(super) struct Connect {
    /// The role and name of the controller.
    controller: Rc<str>,
    addr: SocketAddr,
    dialer: Arc<Dialer>,
    tls: Option<Arc<MeshClient>>,
    /// Time of the last warning, if the last attempt failed.
    warned: Rc<Cell<Option<Instant>>>,
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
            warned: Rc::default(),
        }
    }

    fn log(&self, attempt: &Result<TransportStream, Error>) {
        let (controller, addr) = (&self.controller, self.addr);
        match (attempt, self.warned.take()) {
            (Err(error), warned) => {
                let now = Instant::now();
                if warned.is_none_or(|at| now.duration_since(at) >= WARNING_INTERVAL) {
                    tracing::warn!(%controller, %addr, %error, "The control plane cannot be reached; trying on");
                    self.warned.set(Some(now));
                } else {
                    self.warned.set(warned);
                }
            }
            (Ok(_), Some(_)) => {
                tracing::info!(%controller, %addr, "The control plane can be reached again");
            }
            (Ok(_), None) => {}
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

/// The least time between warnings about an address: the log has the cause of an outage near its end, too.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);
