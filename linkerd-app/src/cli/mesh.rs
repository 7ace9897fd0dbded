//! `run --mesh`: an embedded control plane, configured by a file.

use crate::config::{Env, variables};
use futures::{FutureExt, TryFutureExt, future::BoxFuture};
use linkerd_control::{
    Controller, FileWatch, HostAddresses, MeshError, MeshLoad, Resolve, Server, watch_file_with,
};
use linkerd_discover::dns::{self, Resolve as _};
use linkerd_proxy_core::task::spawn_local;
use std::{error::Error, net::SocketAddr, path::PathBuf, sync::Arc};
use tokio::{sync::watch, task::JoinHandle};

/// The embedded controller. Dropping it ends the controller.
pub struct EmbeddedController {
    _server: Server,
    /// Follows the controller's file.
    pub follow: MeshFileFollower,
}

/// Follows a mesh file, and logs the result of each change, until it is dropped.
pub struct MeshFileFollower {
    file: FileWatch,
    reporter: JoinHandle<()>,
}

impl MeshFileFollower {
    /// Waits until all host names of the file have addresses.
    pub async fn resolved(&self) {
        self.file.resolved().await;
    }

    /// The last load of the file, and each later one.
    pub fn loads(&self) -> watch::Receiver<MeshLoad> {
        self.file.loads()
    }

    /// Reads the mesh file again; the log shows the result.
    pub fn reload(&self) {
        self.file.reload();
    }
}

impl Drop for MeshFileFollower {
    fn drop(&mut self) {
        self.reporter.abort();
    }
}

/// Starts a controller for the services of `file`, and makes it the proxy's control plane ([`complete`]).
pub async fn start(file: PathBuf, env: &mut Env) -> Result<EmbeddedController, Box<dyn Error>> {
    let controller = Controller::new();
    let server = controller.spawn().await?;
    let follow = follow(controller, file).await?;
    complete(env, server.addr());
    Ok(EmbeddedController {
        _server: server,
        follow,
    })
}

/// Publishes the services of `file` in a controller, now and after each change.
pub async fn follow(
    controller: Controller,
    file: PathBuf,
) -> Result<MeshFileFollower, Box<MeshError>> {
    let watch = watch_file_with(controller, &file, resolver()).await;
    // An invalid file at the start is an error; a later invalid change is refused, and the last good state stays.
    let accepted = watch.last().outcome.map_err(Box::new)?;
    tracing::info!(
        file = %file.display(),
        services = accepted.services,
        endpoints = accepted.endpoints,
        "Mesh file loaded"
    );
    let mut loads = watch.loads();
    let reporter = spawn_local(async move {
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
    Ok(MeshFileFollower {
        file: watch,
        reporter,
    })
}

/// Points the environment to a controller that serves a mesh file. Variables that are set already win: only missing
/// ones are filled in, and returned.
pub fn complete(env: &mut Env, controller: SocketAddr) -> Vec<&'static str> {
    let address = controller.to_string();
    // An address that is set enables the listener. By default there is none: a second proxy on the machine would find
    // port 4143 taken.
    let inbound = match env.is_set(variables::INBOUND_LISTEN_ADDR.name()) {
        true => "1",
        false => "0",
    };
    let mut set = Vec::new();
    for (variable, value) in [
        (variables::DESTINATION_SVC_ADDR.name(), &*address),
        (variables::POLICY_SVC_ADDR.name(), &*address),
        (variables::POLICY_WORKLOAD.name(), "mesh-file"),
        (variables::DESTINATION_PROFILE_SUFFIXES.name(), "."),
        (variables::OUTBOUND_EXPLICIT.name(), "1"),
        (variables::OUTBOUND_ALLOW_LOOPBACK.name(), "1"),
        // An explicit proxy that relays to any address would be an open proxy.
        (variables::OUTBOUND_ALLOW_UNKNOWN.name(), "0"),
        (variables::INBOUND_ENABLED.name(), inbound),
    ] {
        if !env.is_set(variable) {
            env.set(variable, value);
            set.push(variable);
        }
    }
    set
}

/// The proxy's own resolver, which respects the time to live of answers; without a `resolv.conf` the system's.
fn resolver() -> Arc<dyn Resolve> {
    match dns::SystemResolver::new() {
        Ok(resolver) => Arc::new(WithTtl(resolver)),
        Err(error) => {
            tracing::debug!(%error, "host names are resolved by the system's library");
            Arc::new(linkerd_control::SystemResolver)
        }
    }
}

struct WithTtl(dns::SystemResolver);

impl Resolve for WithTtl {
    fn addresses(&self, host: &str) -> BoxFuture<'static, Result<HostAddresses, String>> {
        let found = self.0.addresses(host);
        found
            .map_ok(|answer| HostAddresses {
                v4: answer.v4,
                v6: answer.v6,
                ttl: Some(answer.ttl),
            })
            .map_err(|error| error.to_string())
            .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn the_environment_is_complete_and_what_is_set_stays() {
        let controller = ([127, 0, 0, 1], 9).into();
        let mut env = Env::default();
        complete(&mut env, controller);
        let loaded = Config::load(&env).expect("valid");
        assert_eq!(loaded.warnings, [""; 0]);
        assert!(loaded.config.inbound.listen.is_none());
        assert!(!loaded.config.outbound.allow_unknown);

        let mut env = Env::from_iter([
            ("LINKERD2_PROXY_INBOUND_LISTEN_ADDR", "127.0.0.1:1"),
            ("LINKERD_PROXY_OUTBOUND_ALLOW_UNKNOWN", "1"),
        ]);
        complete(&mut env, controller);
        let config = Config::load(&env).expect("valid").config;
        assert!(config.inbound.listen.is_some() && config.outbound.allow_unknown);
    }
}
