//! The services of a mesh file, in domain terms.

use super::hosts::Known;
use super::profile::ServiceProfile;
use super::routes::ServiceRoute;
use super::servers::MeshServer;
use crate::endpoint::Endpoint;
use crate::policy::{Breaker, Protocol};
use crate::server_policy::ServerPolicy;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The services of a mesh file, parsed and checked. The README of this crate documents the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Mesh {
    pub(super) services: Vec<Service>,
    /// Policies of inbound ports.
    pub(super) servers: Vec<MeshServer>,
    /// The policy of ports without a server; `None` leaves it to each proxy.
    pub(super) default_policy: Option<ServerPolicy>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Service {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) ports: Vec<u16>,
    pub(super) protocol: Protocol,
    pub(super) addresses: Vec<IpAddr>,
    /// Host names for further addresses.
    pub(super) address_hosts: Vec<String>,
    pub(super) hostnames: Vec<String>,
    pub(super) labels: BTreeMap<String, String>,
    /// Endpoints with addresses.
    pub(super) endpoints: Vec<Endpoint>,
    /// Endpoints with host names.
    pub(super) hosts: Vec<HostEndpoint>,
    /// Backends; if empty, the service's own endpoints.
    pub(super) backends: Vec<Backend>,
    /// Routes; if empty, one route for every request.
    pub(super) routes: Vec<ServiceRoute<Backend>>,
    pub(super) breaker: Option<Breaker>,
    pub(super) profile: Option<ServiceProfile<Backend>>,
}

/// A host name, which yields an endpoint at each of its addresses.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct HostEndpoint {
    pub(super) host: String,
    /// The endpoint, of which only the IP address is replaced.
    pub(super) endpoint: Endpoint,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Backend {
    pub(super) name: String,
    pub(super) namespace: String,
    /// The port; `None` for the port of the traffic.
    pub(super) port: Option<u16>,
    pub(super) weight: u32,
}

impl Mesh {
    /// The number of services.
    pub fn services(&self) -> usize {
        self.services.len()
    }

    /// The number of endpoints of all services. A host name counts as one.
    pub fn endpoints(&self) -> usize {
        let endpoints = |s: &Service| s.endpoints.len() + s.hosts.len();
        self.services.iter().map(endpoints).sum()
    }

    /// The names of services that receive requests and have no endpoint.
    pub fn without_endpoints(&self) -> impl Iterator<Item = &str> {
        let is_own = |s: &&Service| s.backends.is_empty() && s.routes.is_empty();
        let is_empty = |s: &&Service| s.endpoints.is_empty() && s.hosts.is_empty();
        let services = self.services.iter().filter(is_own).filter(is_empty);
        services.map(|service| &*service.name)
    }

    /// The host names of endpoints and of services' addresses.
    pub(crate) fn hosts(&self) -> BTreeSet<String> {
        let hosts = self.services.iter().flat_map(Service::all_hosts);
        hosts.cloned().collect()
    }

    /// The shortest authorities of the services, such as `web:80` or `web.shop:80`.
    pub fn names(&self) -> Vec<String> {
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
    /// The host names of endpoints and addresses.
    pub(super) fn all_hosts(&self) -> impl Iterator<Item = &String> {
        let of_endpoints = self.hosts.iter().map(|endpoint| &endpoint.host);
        of_endpoints.chain(&self.address_hosts)
    }

    /// The known addresses of [`address_hosts`](Self::address_hosts).
    pub(super) fn resolved_addresses<'a>(
        &'a self,
        known: &'a Known,
    ) -> impl Iterator<Item = IpAddr> + 'a {
        let hosts = self.address_hosts.iter();
        hosts.flat_map(|host| known.get(host).into_iter().flatten().copied())
    }

    /// The endpoints with addresses, and the endpoints of host names with known addresses.
    pub(super) fn known_endpoints(&self, known: &Known) -> Vec<Endpoint> {
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
        // An endpoint declared by its address overrides the same endpoint of a host name.
        let of_hosts: Vec<_> = of_hosts
            .filter(|e| self.endpoints.iter().all(|other| other.addr != e.addr))
            .collect();
        self.endpoints.iter().cloned().chain(of_hosts).collect()
    }

    pub(super) fn full_name(&self) -> String {
        full_name(&self.name, &self.namespace)
    }
}

pub(super) fn full_name(name: &str, namespace: &str) -> String {
    format!("{name}.{namespace}.svc.cluster.local")
}
