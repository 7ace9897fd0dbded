use crate::endpoint::Endpoint;
use crate::policy::Protocol;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;

mod answers;
mod check;
mod decl;
mod error;
mod form;
mod hosts;
mod near;
mod watch;
mod yaml;

pub(crate) use self::answers::MeshTargets;
pub use self::error::{MeshError, Problem};
pub(crate) use self::hosts::Known;
pub use self::hosts::{HostAddresses, Resolve, SystemResolver};
pub(crate) use self::near::distance;
pub use self::watch::{AppliedMesh, FileWatch, MeshLoad, watch_file, watch_file_with};

/// The services of a mesh file, parsed and checked. The README of this crate documents the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Mesh {
    services: Vec<Service>,
}

#[derive(Clone, Debug, PartialEq)]
struct Service {
    name: String,
    namespace: String,
    ports: Vec<u16>,
    protocol: Protocol,
    addresses: Vec<IpAddr>,
    hostnames: Vec<String>,
    labels: BTreeMap<String, String>,
    /// Endpoints with addresses.
    endpoints: Vec<Endpoint>,
    /// Endpoints with host names.
    hosts: Vec<HostEndpoint>,
    /// Backends; if empty, the service is its own.
    backends: Vec<Backend>,
}

/// A host name that stands for an endpoint at each of its addresses.
#[derive(Clone, Debug, PartialEq)]
struct HostEndpoint {
    host: String,
    /// The common endpoint, except its IP address.
    endpoint: Endpoint,
}

#[derive(Clone, Debug, PartialEq)]
struct Backend {
    name: String,
    namespace: String,
    /// The port; `None` for that of the traffic.
    port: Option<u16>,
    weight: u32,
}

impl Mesh {
    /// Parses and checks the text of a mesh file. The name is only for errors.
    pub fn parse(file: &str, text: &str) -> Result<Self, MeshError> {
        let (decl, problems) = decl::parse(text);
        check::check(decl, problems).map_err(|problems| MeshError::Invalid {
            file: file.to_owned(),
            problems,
        })
    }

    /// Reads, parses and checks a mesh file.
    pub fn read(path: &Path) -> Result<Self, MeshError> {
        Self::parse(&path.display().to_string(), &watch::read(path)?)
    }

    /// The number of services.
    pub fn services(&self) -> usize {
        self.services.len()
    }

    /// The number of endpoints of all services. A host name counts as one.
    pub fn endpoints(&self) -> usize {
        let endpoints = |s: &Service| s.endpoints.len() + s.hosts.len();
        self.services.iter().map(endpoints).sum()
    }

    /// The host names of endpoints.
    pub(crate) fn hosts(&self) -> BTreeSet<String> {
        let hosts = self.services.iter().flat_map(|s| &s.hosts);
        hosts.map(|endpoint| endpoint.host.clone()).collect()
    }

    /// The shortest authorities of the services, such as `web:80` or `web.shop:80`.
    pub(crate) fn names(&self) -> Vec<String> {
        let name = |service: &Service| match &*service.namespace {
            "default" => service.name.clone(),
            namespace => format!("{}.{namespace}", service.name),
        };
        let services = self.services.iter();
        services
            .flat_map(|service| {
                let name = name(service);
                let ports = service.ports.iter();
                ports.map(move |port| format!("{name}:{port}"))
            })
            .collect()
    }

    /// The most common authorities of the services, such as `web.default.svc.cluster.local:80`.
    pub fn authorities(&self) -> impl Iterator<Item = String> {
        self.services.iter().flat_map(|service| {
            let name = service.full_name();
            service
                .ports
                .iter()
                .map(move |port| format!("{name}:{port}"))
        })
    }
}

impl Service {
    /// The endpoints with addresses, and those of host names with known addresses.
    fn known_endpoints(&self, known: &Known) -> Vec<Endpoint> {
        let of_hosts = self
            .hosts
            .iter()
            .flat_map(|HostEndpoint { host, endpoint }| {
                let ips = known.get(host).into_iter().flatten();
                ips.map(|ip| Endpoint {
                    addr: (*ip, endpoint.addr.port()).into(),
                    ..endpoint.clone()
                })
            });
        // An endpoint given by its address wins over the same one of a host name.
        let of_hosts: Vec<_> = of_hosts
            .filter(|e| self.endpoints.iter().all(|other| other.addr != e.addr))
            .collect();
        self.endpoints.iter().cloned().chain(of_hosts).collect()
    }

    fn full_name(&self) -> String {
        full_name(&self.name, &self.namespace)
    }
}

fn full_name(name: &str, namespace: &str) -> String {
    format!("{name}.{namespace}.svc.cluster.local")
}
