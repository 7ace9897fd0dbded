//! The subjects: one file for each, with its configuration for a workload.

mod direct;
mod envoy;
mod forwarder;
mod haproxy;
mod nginx;
mod relay;
mod sidecar;

use crate::{
    control::Control,
    error::{Error, Result},
    identities::Identities,
    net::PEER,
    process::Program,
    programs::Programs,
    workload::{Protocol, Workload},
};
use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

/// A proxy that can be measured.
pub trait Subject {
    /// The name on the command line and in tables.
    fn name(&self) -> &str;

    /// The programs to start, in this order: one, or the proxies of the backends and of the clients if the workload is meshed.
    /// Empty if the subject does not support the workload, or if there is no proxy.
    fn programs(&self, setup: &Setup<'_>) -> Result<Vec<Program>>;

    /// Whether the subject has a control plane, which informs it of services beyond its setup.
    fn discovers(&self) -> bool {
        false
    }
}

/// The setup of a proxy for a workload.
#[derive(Debug)]
pub struct Setup<'a> {
    /// The protocol.
    pub protocol: Protocol,
    /// The endpoints to balance over.
    pub endpoints: Vec<SocketAddr>,
    /// Number of workers.
    pub workers: usize,
    /// Whether the proxy has routes, a header filter, timeouts, retries and ejection.
    pub has_policy: bool,
    /// A directory that the proxy can write to.
    pub scratch: &'a Path,
    /// The address of the control plane.
    pub control: SocketAddr,
    /// The identities of both proxies, if the workload is meshed.
    pub mesh: Option<&'a Identities>,
}

impl<'a> Setup<'a> {
    /// The setup of a proxy with `workers` for a workload.
    pub fn new(
        workload: &Workload,
        workers: usize,
        scratch: &'a Path,
        control: &'a Control,
    ) -> Self {
        Self {
            protocol: workload.protocol(),
            endpoints: workload.endpoints(0),
            workers,
            has_policy: workload.has_policy,
            scratch,
            control: control.addr,
            mesh: workload.is_meshed.then_some(&control.identities),
        }
    }

    /// The addresses of the backends' proxy, at the hosts of all endpoints.
    pub fn peers(&self) -> Vec<SocketAddr> {
        let at_host = |addr: &SocketAddr| SocketAddr::new(addr.ip(), PEER.port());
        self.endpoints.iter().map(at_host).collect()
    }

    /// The backend's address for the proxy in front of it.
    pub fn backend(&self) -> SocketAddr {
        let port = self.endpoints.first().map_or(0, SocketAddr::port);
        SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)
    }
}

/// The name of the subject without a proxy.
pub const DIRECT: &str = "direct";
/// The name of the byte relay.
pub const RELAY: &str = "relay";
/// The name of the subject with which all others are compared.
pub const FLOOR: &str = "forwarder";
/// The name of this workspace's proxy.
pub const OURS: &str = "ours";

/// All available subjects, in the order of the table. `builds` are further builds of this workspace's proxy, as
/// `NAME=PATH`.
pub fn all(programs: &Programs, builds: &[String]) -> Result<Vec<Box<dyn Subject>>> {
    let mut all: Vec<Box<dyn Subject>> = vec![
        Box::new(direct::Direct),
        Box::new(relay::Relay(programs.path("relay"))),
        Box::new(forwarder::Forwarder(programs.path("forwarder"))),
        Box::new(sidecar::Sidecar::new(OURS, programs.path("linkerd-proxy"))),
    ];
    for build in builds {
        let (name, path) = build
            .split_once('=')
            .ok_or_else(|| Error::Other(format!("--build takes NAME=PATH, not {build}")))?;
        let path = programs.add(&format!("build-{name}"), Path::new(path))?;
        all.push(Box::new(sidecar::Sidecar::new(name, path)));
    }
    if let Some(path) = std::env::var_os(OTHER) {
        let path = programs.add("other-proxy", &PathBuf::from(path))?;
        all.push(Box::new(sidecar::Sidecar::other(path)));
    }
    all.extend(nginx::Nginx::find().map(|found| Box::new(found) as Box<dyn Subject>));
    all.extend(haproxy::Haproxy::find().map(|found| Box::new(found) as Box<dyn Subject>));
    all.extend(envoy::Envoy::find().map(|found| Box::new(found) as Box<dyn Subject>));
    Ok(all)
}

/// The variable with the path of any other proxy that speaks Linkerd's API.
const OTHER: &str = "LINKERD_BENCH_PROXY";

#[cfg(test)]
mod tests {
    use super::*;

    /// A setup for tests of configurations.
    pub(super) fn setup(protocol: Protocol, scratch: &Path) -> Setup<'_> {
        Setup {
            protocol,
            endpoints: vec![
                SocketAddr::from(([10, 9, 0, 11], 8080)),
                SocketAddr::from(([10, 9, 0, 12], 8080)),
            ],
            workers: 2,
            has_policy: false,
            scratch,
            control: SocketAddr::from(([127, 0, 0, 1], 8086)),
            mesh: None,
        }
    }
}
