//! Tunnels through the explicit proxy: CONNECT.

use super::{Outbound, target::TargetStack};
use hyper::upgrade::OnUpgrade;
use linkerd_proxy_core::{
    http::upgraded,
    transport::{ClientInfo, Io},
};
use std::rc::Rc;

/// Serves what comes through the tunnel as a connection to its target, once the client's side is there.
pub fn spawn(
    outbound: Rc<Outbound>,
    client: Rc<ClientInfo>,
    stack: Rc<TargetStack>,
    upgrade: OnUpgrade,
) {
    let guard = client.listener.connection();
    tokio::task::spawn_local(async move {
        let stream = match upgraded(upgrade).await {
            Ok(stream) => stream,
            Err(error) => {
                tracing::debug!(%error, "tunnel was not opened");
                return;
            }
        };
        guard.resets(&stream);
        let io = Io::new(stream, stack.client_series());
        let served = outbound.connection(io, client, stack.clone());
        if let Err(error) = guard.until_cut_off(served).await {
            outbound.failed_target(stack.target(), &error);
        }
    });
}
