//! Tunnels through the explicit proxy: CONNECT.

use super::target::TargetStack;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use linkerd_proxy_core::{
    task::spawn_local,
    transport::{ClientInfo, Io},
};
use std::rc::Rc;

/// Serves the bytes of a tunnel as a connection to its target, once the client's side is there.
pub fn spawn(
    client: Rc<ClientInfo>,
    stack: Rc<TargetStack>,
    upgrade: OnUpgrade,
    serve: impl AsyncFnOnce(Io<TokioIo<Upgraded>>, Rc<ClientInfo>, Rc<TargetStack>) + 'static,
) {
    let guard = client.listener.connection();
    spawn_local(async move {
        let _guard = guard;
        let io = match upgrade.await {
            Ok(upgraded) => TokioIo::new(upgraded),
            Err(error) => {
                tracing::debug!(%error, "tunnel was not opened");
                return;
            }
        };
        let io = Io::new(io, stack.client_series());
        serve(io, client, stack).await;
    });
}
