//! Checks of the declarations of services, one by one and against one another.

use crate::mesh::decl;
use crate::mesh::error::Problems;
use crate::mesh::form::{Given, Spanned};
use crate::mesh::host_name::{is_dns_name, is_host_name};
use crate::mesh::model::{Service, full_name};
use crate::mesh::position::Position;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// The problems found, and the names seen so far.
#[derive(Default)]
pub(super) struct Checker {
    pub(super) problems: Problems,
    /// Whether declared services may be missing.
    pub(super) partial: bool,
    /// Full names, and the places of their declarations.
    pub(super) services: HashMap<String, Position>,
    /// Addresses and host names with a port, and their service.
    pub(super) taken: HashMap<String, String>,
}

impl Checker {
    pub(super) fn problem(&mut self, at: Position, reason: impl Into<String>) {
        self.problems.push(at.problem(reason));
    }

    pub(super) fn service(&mut self, decl: decl::Service) -> Service {
        let (name, at) = match &decl.name {
            Given::Is(name) => (self.name("service name", name), name.at),
            Given::Absent => {
                self.problem(decl.at, "the service has no `name`");
                (String::new(), decl.at)
            }
            Given::Wrong => (String::new(), decl.at),
        };
        let namespace = match &decl.namespace {
            Given::Is(namespace) => self.name("namespace", namespace),
            Given::Absent | Given::Wrong => "default".to_owned(),
        };
        let full_name = full_name(&name, &namespace);
        // Services without a name cannot be duplicates.
        let declared = match name.is_empty() {
            true => None,
            false => self.services.insert(full_name.clone(), at),
        };
        if let Some(first) = declared {
            let reason = format!(
                "service {name} of namespace {namespace} is already declared in line {}; \
                 list all its `ports` there",
                first.line
            );
            self.problem(at, reason);
        }

        let ports = self.ports(at, decl.port, decl.ports);
        if declared.is_none() && !name.is_empty() {
            // Not the bare name, which may belong to another service.
            let names = [
                &*full_name,
                &format!("{name}.{namespace}.svc"),
                &format!("{name}.{namespace}"),
            ];
            let targets = ports
                .iter()
                .flat_map(|p| names.map(|name| format!("{name}:{p}")));
            self.take(&full_name, at, targets.collect());
        }
        let (addresses, address_hosts) = self.addresses(&full_name, &ports, &decl.addresses);
        let hostnames = self.hostnames(&full_name, &ports, &decl.hostnames);
        let (endpoints, hosts) = self.endpoints(decl.endpoints);
        Service {
            name,
            namespace,
            ports,
            protocol: decl.protocol,
            addresses,
            address_hosts,
            hostnames,
            labels: decl.labels,
            endpoints,
            hosts,
            backends: Vec::new(),
            routes: Vec::new(),
            breaker: decl.breaker,
            profile: None,
        }
    }

    pub(super) fn name(&mut self, what: &str, name: &Spanned<String>) -> String {
        if !is_dns_name(&name.value) {
            let reason = format!(
                "{what} {:?} is not a DNS name; use lower-case letters, digits and hyphens",
                name.value
            );
            self.problem(name.at, reason);
        }
        name.value.clone()
    }

    pub(super) fn ports(
        &mut self,
        service: Position,
        one: Given<i128>,
        many: Given<Vec<Given<i128>>>,
    ) -> Vec<u16> {
        let ports = match (one, many) {
            (Given::Is(port), Given::Absent) => vec![Given::Is(port)],
            (Given::Absent, Given::Is(ports)) if !ports.value.is_empty() => ports.value,
            (Given::Is(_) | Given::Wrong, Given::Is(ports)) => {
                self.problem(ports.at, "give either `port` or `ports`, not both");
                return Vec::new();
            }
            (Given::Absent, Given::Absent | Given::Is(_)) => {
                self.problem(service, "the service has no port; add `port: 80`");
                return Vec::new();
            }
            (Given::Wrong, _) | (_, Given::Wrong) => return Vec::new(),
        };
        let mut seen = Vec::new();
        for port in ports {
            let Given::Is(port) = port else { continue };
            match u16::try_from(port.value) {
                Ok(p) if p > 0 && !seen.contains(&p) => seen.push(p),
                Ok(p) if p > 0 => self.problem(port.at, format!("port {p} is listed twice")),
                _ => self.problem(
                    port.at,
                    format!("{} is not a port; use 1 to 65535", port.value),
                ),
            }
        }
        seen
    }

    /// The addresses, and the host names among them.
    pub(super) fn addresses(
        &mut self,
        service: &str,
        ports: &[u16],
        addresses: &[Spanned<String>],
    ) -> (Vec<IpAddr>, Vec<String>) {
        let (mut ips, mut hosts) = (Vec::new(), Vec::new());
        for address in addresses {
            let text = &address.value;
            let host = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
            let targets: Vec<_> = if let Ok(ip) = text.parse::<IpAddr>() {
                let ip = ip.to_canonical();
                ips.push(ip);
                let targets = ports.iter().map(|port| SocketAddr::new(ip, *port));
                targets.map(|target| target.to_string()).collect()
            } else if is_host_name(&host) {
                // Kept apart from the names of services: a service often has its own name as its address.
                let targets = ports
                    .iter()
                    .map(|port| format!("the address of {host}:{port}"));
                let targets = targets.collect();
                hosts.push(host);
                targets
            } else {
                let reason = format!(
                    "{text:?} is not an IP address or a host name; write it without a port, such as 10.0.0.10; the service's servers, with their ports, belong under `endpoints`"
                );
                self.problem(address.at, reason);
                continue;
            };
            self.take(service, address.at, targets);
        }
        (ips, hosts)
    }

    pub(super) fn hostnames(
        &mut self,
        service: &str,
        ports: &[u16],
        hostnames: &[Spanned<String>],
    ) -> Vec<String> {
        let mut good = Vec::new();
        for hostname in hostnames {
            let name = hostname.value.trim_end_matches('.').to_ascii_lowercase();
            if !is_dns_name(&name) {
                let reason = format!(
                    "{:?} is not a host name; write it without a port, such as web.local",
                    hostname.value
                );
                self.problem(hostname.at, reason);
                continue;
            }
            let targets = ports.iter().map(|port| format!("{name}:{port}"));
            self.take(service, hostname.at, targets.collect());
            good.push(name);
        }
        good
    }

    /// Claims addresses and names, which two services cannot share.
    pub(super) fn take(&mut self, service: &str, at: Position, targets: Vec<String>) {
        for target in targets {
            if let Some(other) = self.taken.insert(target.clone(), service.to_owned()) {
                self.problem(at, format!("{target} already belongs to {other}"));
            }
        }
    }
}
