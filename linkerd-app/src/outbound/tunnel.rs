//! Tunnels through the explicit proxy: CONNECT.

use hyper::upgrade::OnUpgrade;
use linkerd_proxy_core::{
    http::upgraded,
    task::spawn_local,
    transport::{ConnectionGuard, Io, TransportSeries},
};
use std::sync::Arc;

/// Serves the bytes of a tunnel as a connection to its target, once the client's side is there. `serve` gets the guard of
/// the client's connection, too.
pub fn spawn(
    guard: ConnectionGuard,
    series: Arc<TransportSeries>,
    upgrade: OnUpgrade,
    serve: impl AsyncFnOnce(Io, ConnectionGuard) + 'static,
) {
    spawn_local(async move {
        match upgraded(upgrade).await {
            Ok(stream) => {
                guard.resets(&stream);
                serve(Io::new(stream, series), guard).await;
            }
            Err(error) => tracing::debug!(%error, "tunnel was not opened"),
        }
    });
}
