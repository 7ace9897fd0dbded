//! Proxies with linkerd's variables and a control plane: this workspace's, and any other.

use super::{Setup, Subject};
use crate::{error::Result, net::PROXY, process::Program};
use std::path::PathBuf;

/// A sidecar as it runs in a pod: redirected connections are looked up by their original destination.
pub struct Sidecar {
    name: String,
    path: PathBuf,
    /// Whether the variables of this environment are passed on.
    is_other: bool,
}

impl Sidecar {
    /// A build of this workspace's proxy.
    pub fn new(name: &str, path: PathBuf) -> Self {
        Self {
            name: name.to_owned(),
            path,
            is_other: false,
        }
    }

    /// Another proxy. It also gets all `LINKERD2_PROXY_*` of this environment: it may need more than this workspace's
    /// proxy, such as an identity.
    pub fn other(path: PathBuf) -> Self {
        Self {
            is_other: true,
            ..Self::new("linkerd", path)
        }
    }
}

impl Subject for Sidecar {
    fn name(&self) -> &str {
        &self.name
    }

    fn discovers(&self) -> bool {
        true
    }

    fn program(&self, setup: &Setup<'_>) -> Result<Option<Program>> {
        let mut program = Program::new(&self.path)
            .env("LINKERD2_PROXY_OUTBOUND_LISTEN_ADDR", PROXY)
            .env("LINKERD2_PROXY_OUTBOUND_LISTEN_ADDRS", PROXY)
            .env("LINKERD2_PROXY_INBOUND_LISTEN_ADDR", "0.0.0.0:4143")
            .env("LINKERD2_PROXY_ADMIN_LISTEN_ADDR", "127.0.0.1:4191")
            .env("LINKERD2_PROXY_DESTINATION_SVC_ADDR", setup.control)
            .env("LINKERD2_PROXY_POLICY_SVC_ADDR", setup.control)
            .env("LINKERD2_PROXY_DESTINATION_PROFILE_SUFFIXES", ".")
            // Older proxies look up no address that is in none of these networks.
            .env("LINKERD2_PROXY_DESTINATION_PROFILE_NETWORKS", "10.0.0.0/8")
            .env("LINKERD2_PROXY_POLICY_WORKLOAD", "bench:proxy")
            .env("LINKERD2_PROXY_CORES", setup.workers)
            .env("LINKERD2_PROXY_LOG", "warn,linkerd=info");
        if self.is_other {
            for (name, value) in std::env::vars() {
                if name.starts_with("LINKERD2_PROXY_") {
                    program = program.env(name, value);
                }
            }
        }
        Ok(Some(program))
    }
}
