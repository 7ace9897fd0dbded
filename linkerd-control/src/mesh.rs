use crate::endpoint::Endpoint;
use crate::policy::Protocol;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

mod check;
mod decl;
mod error;
mod tables;
mod watch;

pub use self::error::{MeshError, Problem};
pub(crate) use self::tables::Keys;
pub use self::watch::{Accepted, FileWatch, Load, watch_file};

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
    endpoints: Vec<Endpoint>,
    /// If empty, the service is its own backend.
    backends: Vec<Backend>,
}

#[derive(Clone, Debug, PartialEq)]
struct Backend {
    name: String,
    namespace: String,
    /// `None`: the port on which the traffic arrives.
    port: Option<u16>,
    weight: u32,
}

impl Mesh {
    /// Parses and checks the text of a mesh file. The name is only for errors.
    pub fn parse(file: &str, text: &str) -> Result<Self, MeshError> {
        let decl = decl::parse(file, text)?;
        check::check(decl).map_err(|problems| MeshError::Invalid {
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

    /// The number of endpoints of all services.
    pub fn endpoints(&self) -> usize {
        self.services.iter().map(|s| s.endpoints.len()).sum()
    }

    /// The authorities, such as `web.default.svc.cluster.local:80`, under which the services are known best.
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
    fn full_name(&self) -> String {
        full_name(&self.name, &self.namespace)
    }
}

fn full_name(name: &str, namespace: &str) -> String {
    format!("{name}.{namespace}.svc.cluster.local")
}
