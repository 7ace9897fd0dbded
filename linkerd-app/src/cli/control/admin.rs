//! The admin server of the controller.

use super::listen;
use crate::admin::{self, ControllerAdmin};
use linkerd_proxy_core::{drain, metrics::Registry, task::spawn_local};
use std::{net::SocketAddr, rc::Rc};
use tokio::task::JoinHandle;

/// An admin server. Dropping it closes its connections.
pub(super) struct AdminServer {
    admin: Rc<ControllerAdmin>,
    task: JoinHandle<()>,
    _drain: drain::Signal,
}

impl AdminServer {
    /// Serves `/live`, and the other paths as the controller comes up.
    pub(super) fn start(addr: SocketAddr) -> Result<Self, String> {
        let refused = |error| {
            format!("{error}: cannot listen on {addr}; `--admin-listen` sets another address")
        };
        let listener = listen::bind(addr).map_err(refused)?;
        let addr = listener.local_addr().map_err(refused)?;
        tracing::info!("Admin server of the controller listens on {addr}");
        let admin = Rc::new(ControllerAdmin::default());
        let (signal, drain) = drain::channel();
        let serving = admin::serve_controller(listener, admin.clone(), drain.watch());
        Ok(Self {
            admin,
            task: spawn_local(serving),
            _drain: signal,
        })
    }

    /// The metrics that it serves.
    pub(super) fn registry(&self) -> &Registry {
        &self.admin.registry
    }

    /// Notes that the controller serves proxies.
    pub(super) fn ready(&self) {
        self.admin.ready();
    }
}

impl Drop for AdminServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}
