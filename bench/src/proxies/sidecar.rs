//! Proxies with Linkerd's variables and a control plane: this workspace's, and any other.

use super::{Setup, Subject};
use crate::{
    error::Result,
    identities::{API, Identities, WEB},
    net::{ADMIN, PEER, PROXY},
    process::Program,
    workload::{BACKEND_HTTP1, BACKEND_HTTP2},
};
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
};

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

    /// Another proxy. It also gets all `LINKERD2_PROXY_*` of this environment, as it may need more than this workspace's proxy,
    /// such as an identity.
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

    fn programs(&self, setup: &Setup<'_>) -> Result<Vec<Program>> {
        let alone = self.program(setup, Listeners::OF_CLIENTS);
        let Some(mesh) = setup.mesh else {
            return Ok(vec![alone]);
        };
        let of_backends = self.program(setup, Listeners::OF_BACKENDS).env(
            "LINKERD2_PROXY_INBOUND_PORTS",
            format!("{BACKEND_HTTP1},{BACKEND_HTTP2}"),
        );
        Ok(vec![
            with_identity(of_backends, mesh, API, setup),
            with_identity(alone, mesh, WEB, setup),
        ])
    }
}

impl Sidecar {
    fn program(&self, setup: &Setup<'_>, listeners: Listeners) -> Program {
        let mut program = Program::new(&self.path)
            .env("LINKERD2_PROXY_OUTBOUND_LISTEN_ADDR", listeners.outbound)
            .env("LINKERD2_PROXY_OUTBOUND_LISTEN_ADDRS", listeners.outbound)
            .env("LINKERD2_PROXY_INBOUND_LISTEN_ADDR", listeners.inbound)
            .env("LINKERD2_PROXY_ADMIN_LISTEN_ADDR", listeners.admin)
            .env("LINKERD2_PROXY_DESTINATION_SVC_ADDR", setup.control)
            .env("LINKERD2_PROXY_POLICY_SVC_ADDR", setup.control)
            .env("LINKERD2_PROXY_DESTINATION_PROFILE_SUFFIXES", ".")
            // Older proxies look up only addresses in these networks.
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
        program
    }
}

/// The addresses of a sidecar.
#[derive(Clone, Copy)]
struct Listeners {
    outbound: SocketAddr,
    inbound: SocketAddr,
    admin: SocketAddr,
}

impl Listeners {
    /// The addresses of the clients' proxy, or of the only proxy.
    const OF_CLIENTS: Self = Self {
        outbound: PROXY,
        inbound: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 4145),
        admin: ADMIN,
    };
    /// The addresses of the backends' proxy.
    const OF_BACKENDS: Self = Self {
        outbound: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4142),
        inbound: PEER,
        admin: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4192),
    };
}

/// Adds a certificate from the control plane, requested without TLS as the control plane is on loopback.
fn with_identity(program: Program, mesh: &Identities, name: &str, setup: &Setup<'_>) -> Program {
    let directory = mesh.directory(name);
    let anchors = mesh.authority.trust_anchors();
    let token = mesh.token();
    program
        .env("LINKERD2_PROXY_DESTINATION_SVC_NAME", CONTROL)
        .env("LINKERD2_PROXY_POLICY_SVC_NAME", CONTROL)
        .env("LINKERD2_PROXY_IDENTITY_SVC_ADDR", setup.control)
        .env("LINKERD2_PROXY_IDENTITY_SVC_NAME", CONTROL)
        .env("LINKERD2_PROXY_IDENTITY_LOCAL_NAME", name)
        .env("LINKERD2_PROXY_IDENTITY_TRUST_ANCHORS", anchors)
        .env(
            "LINKERD2_PROXY_IDENTITY_DIR",
            directory.join("own").display(),
        )
        .env("LINKERD2_PROXY_IDENTITY_TOKEN_FILE", token.display())
}

const CONTROL: &str = "control.bench.serviceaccount.identity.linkerd.cluster.local";
