//! `run --mesh`: a control plane of one's own, from a file.

use crate::config::{Env, variables};
use linkerd_control::{Controller, FileWatch, Server, watch_file};
use std::{error::Error, net::SocketAddr, path::PathBuf};
use tokio::task::JoinHandle;

/// The embedded controller. It ends with this.
pub struct Embedded {
    _server: Server,
    _file: FileWatch,
    reporter: JoinHandle<()>,
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.reporter.abort();
    }
}

/// Starts a controller for the services of `file`, and makes it the proxy's control plane ([`complete`]).
pub async fn start(file: PathBuf, env: &mut Env) -> Result<Embedded, Box<dyn Error>> {
    let controller = Controller::new();
    let server = controller.spawn().await?;
    let watch = watch_file(controller, &file).await;
    // What is wrong at the start is an error; what becomes wrong later is refused, and the last good state stays.
    let accepted = watch.last().outcome?;
    tracing::info!(
        file = %file.display(),
        services = accepted.services,
        endpoints = accepted.endpoints,
        "Mesh file loaded"
    );
    complete(env, server.addr());
    let mut loads = watch.loads();
    let reporter = tokio::task::spawn_local(async move {
        while loads.changed().await.is_ok() {
            match &loads.borrow_and_update().outcome {
                Ok(accepted) => tracing::info!(
                    services = accepted.services,
                    endpoints = accepted.endpoints,
                    "Mesh file reloaded"
                ),
                Err(error) => tracing::error!(%error, "Mesh file refused; the last good one stays"),
            }
        }
    });
    Ok(Embedded {
        _server: server,
        _file: watch,
        reporter,
    })
}

/// Makes a controller that serves a mesh file the proxy's control plane. What the environment sets itself counts: only
/// what is missing is filled in.
pub fn complete(env: &mut Env, controller: SocketAddr) {
    let address = controller.to_string();
    // Whoever sets the inbound listener's address wants it; all others would find port 4143 taken by a second proxy.
    let inbound = match env.is_set(variables::INBOUND_LISTEN_ADDR.name()) {
        true => "1",
        false => "0",
    };
    for (variable, value) in [
        (variables::DESTINATION_SVC_ADDR.name(), &*address),
        (variables::POLICY_SVC_ADDR.name(), &*address),
        (variables::POLICY_WORKLOAD.name(), "mesh-file"),
        (variables::DESTINATION_PROFILE_SUFFIXES.name(), "."),
        (variables::OUTBOUND_EXPLICIT.name(), "1"),
        (variables::OUTBOUND_ALLOW_LOOPBACK.name(), "1"),
        // An explicit proxy that relays to any address is an open one.
        (variables::OUTBOUND_ALLOW_UNKNOWN.name(), "0"),
        (variables::INBOUND_ENABLED.name(), inbound),
    ] {
        if !env.is_set(variable) {
            env.set(variable, value);
        }
    }
}
