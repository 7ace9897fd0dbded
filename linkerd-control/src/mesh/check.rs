//! From what is written to what is meant. All problems are collected, so that one look mends them all.

use super::decl::{self, Number};
use super::error::Problem;
use super::{Backend, Mesh, Service, full_name};
use crate::endpoint::Endpoint;
use serde_saphyr::{Location, Spanned};
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

pub(super) fn check(file: decl::File) -> Result<Mesh, Vec<Problem>> {
    let mut checker = Checker::default();
    let mut references = Vec::new();
    let mut services = Vec::new();
    let Some(declared) = file.services else {
        return Err(vec![Problem {
            line: 1,
            column: 1,
            reason: "no services are given; write `services: []` if there are none".to_owned(),
        }]);
    };
    for mut decl in declared {
        let backends = std::mem::take(&mut decl.backends);
        references.push((services.len(), backends));
        services.push(checker.service(decl));
    }
    for (index, backends) in references {
        services[index].backends = checker.backends(&services, index, backends);
    }
    if checker.problems.is_empty() {
        Ok(Mesh { services })
    } else {
        checker.problems.sort_by_key(|p| (p.line, p.column));
        Err(checker.problems)
    }
}

#[derive(Default)]
struct Checker {
    problems: Vec<Problem>,
    /// Full names, and where they are declared.
    services: HashMap<String, Location>,
    /// Addresses and hostnames with a port, and the service that has them.
    taken: HashMap<String, String>,
}

impl Checker {
    fn problem(&mut self, at: Location, reason: impl Into<String>) {
        self.problems.push(Problem {
            line: at.line(),
            column: at.column(),
            reason: reason.into(),
        });
    }

    fn service(&mut self, decl: decl::Service) -> Service {
        let at = decl.name.referenced;
        let name = self.name("service name", &decl.name);
        let namespace = match &decl.namespace {
            Some(namespace) => self.name("namespace", namespace),
            None => "default".to_owned(),
        };
        let full_name = full_name(&name, &namespace);
        if let Some(first) = self.services.get(&full_name) {
            let reason = format!(
                "service {name} of namespace {namespace} is already declared in line {}; \
                 list all its `ports` there",
                first.line()
            );
            self.problem(at, reason);
        }
        let duplicate = self.services.insert(full_name.clone(), at).is_some();

        let ports = self.ports(at, decl.port, decl.ports);
        if !duplicate {
            // The bare name is not among them: it is not the service's for certain.
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
        let addresses = self.addresses(&full_name, &ports, &decl.addresses);
        let hostnames = self.hostnames(&full_name, &ports, &decl.hostnames);
        let endpoints = self.endpoints(decl.endpoints);
        Service {
            name,
            namespace,
            ports,
            protocol: decl.protocol,
            addresses,
            hostnames,
            labels: decl.labels,
            endpoints,
            backends: Vec::new(),
        }
    }

    fn name(&mut self, what: &str, name: &Spanned<String>) -> String {
        if !is_dns_name(&name.value) {
            let reason = format!(
                "{what} {:?} is not a DNS name; use lower-case letters, digits and hyphens",
                name.value
            );
            self.problem(name.referenced, reason);
        }
        name.value.clone()
    }

    fn ports(
        &mut self,
        service: Location,
        one: Option<Spanned<Number>>,
        many: Option<Spanned<Vec<Spanned<Number>>>>,
    ) -> Vec<u16> {
        let ports = match (one, many) {
            (Some(port), None) => vec![port],
            (None, Some(ports)) if !ports.value.is_empty() => ports.value,
            (Some(_), Some(ports)) => {
                self.problem(ports.referenced, "give either `port` or `ports`, not both");
                return Vec::new();
            }
            _ => {
                self.problem(service, "the service has no port; add `port: 80`");
                return Vec::new();
            }
        };
        let mut seen = Vec::new();
        for port in ports {
            match u16::try_from(port.value.0) {
                Ok(p) if p > 0 && !seen.contains(&p) => seen.push(p),
                Ok(p) if p > 0 => {
                    self.problem(port.referenced, format!("port {p} is listed twice"));
                }
                _ => self.problem(
                    port.referenced,
                    format!("{} is not a port; use 1 to 65535", port.value.0),
                ),
            }
        }
        seen
    }

    fn addresses(
        &mut self,
        service: &str,
        ports: &[u16],
        addresses: &[Spanned<String>],
    ) -> Vec<IpAddr> {
        let mut good = Vec::new();
        for address in addresses {
            match address.value.parse::<IpAddr>() {
                Ok(ip) => {
                    let ip = ip.to_canonical();
                    let targets = ports
                        .iter()
                        .map(|port| SocketAddr::new(ip, *port).to_string());
                    self.take(service, address.referenced, targets.collect());
                    good.push(ip);
                }
                Err(_) => {
                    let reason = format!(
                        "{:?} is not an IP address; write it without a port, such as 10.0.0.10",
                        address.value
                    );
                    self.problem(address.referenced, reason);
                }
            }
        }
        good
    }

    fn hostnames(
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
                self.problem(hostname.referenced, reason);
                continue;
            }
            let targets = ports.iter().map(|port| format!("{name}:{port}"));
            self.take(service, hostname.referenced, targets.collect());
            good.push(name);
        }
        good
    }

    /// Two services cannot be reached at the same place.
    fn take(&mut self, service: &str, at: Location, targets: Vec<String>) {
        for target in targets {
            if let Some(other) = self.taken.insert(target.clone(), service.to_owned()) {
                self.problem(at, format!("{target} already belongs to {other}"));
            }
        }
    }

    fn endpoints(&mut self, endpoints: Vec<Spanned<decl::Endpoint>>) -> Vec<Endpoint> {
        let first = endpoints.first().map(|e| e.referenced);
        let mut seen = HashSet::new();
        let mut good = Vec::new();
        for endpoint in endpoints {
            let at = endpoint.referenced;
            let decl = endpoint.value;
            let addr = match decl.address.parse::<SocketAddr>() {
                Ok(addr) if addr.port() != 0 => addr,
                Ok(_) => {
                    let reason = format!("endpoint {} has port 0; use 1 to 65535", decl.address);
                    self.problem(at, reason);
                    continue;
                }
                Err(_) => {
                    let reason = format!(
                        "{:?} is not an endpoint's address; write an IP address with a port, such as 127.0.0.1:9001",
                        decl.address
                    );
                    self.problem(at, reason);
                    continue;
                }
            };
            if !seen.insert(addr) {
                self.problem(at, format!("endpoint {addr} is listed twice"));
            }
            let weight = decl.weight.unwrap_or(1.0);
            if !(0.0..=MAX_WEIGHT).contains(&weight) {
                self.problem(
                    at,
                    format!("weight {weight} is not between 0 and {MAX_WEIGHT}"),
                );
                continue;
            }
            let mut endpoint = Endpoint::new(addr);
            endpoint.weight = (weight * f64::from(Endpoint::WEIGHT_ONE)).round() as u32;
            endpoint.labels = decl.labels.into_iter().collect();
            good.push(match decl.protocol {
                Some(decl::Hint::H2) => endpoint.h2(),
                Some(decl::Hint::Opaque) => endpoint.opaque(),
                None => endpoint,
            });
        }
        if let Some(at) = first
            && !good.is_empty()
            && good.iter().all(|e| e.weight == 0)
        {
            self.problem(
                at,
                "all endpoints have weight 0; give one of them a higher weight",
            );
        }
        good
    }

    fn backends(
        &mut self,
        services: &[Service],
        parent: usize,
        backends: Vec<decl::Backend>,
    ) -> Vec<Backend> {
        let first = backends.first().map(|b| b.service.referenced);
        let mut good = Vec::new();
        for backend in &backends {
            let weight = backend.weight.as_ref().map_or(1, |w| w.value.0);
            match u32::try_from(weight) {
                Ok(weight) if weight <= MAX_BACKEND_WEIGHT => {
                    good.extend(self.backend(services, parent, &backend.service, weight));
                }
                _ => {
                    let at = backend.weight.as_ref().map(|w| w.referenced);
                    self.problem(
                        at.unwrap_or(backend.service.referenced),
                        format!("weight {weight} is not between 0 and {MAX_BACKEND_WEIGHT}"),
                    );
                }
            }
        }
        if let Some(at) = first
            && good.len() == backends.len()
            && good.iter().all(|b| b.weight == 0)
        {
            self.problem(
                at,
                "all backends have weight 0; give one of them a higher weight",
            );
        }
        good
    }

    fn backend(
        &mut self,
        services: &[Service],
        parent: usize,
        reference: &Spanned<String>,
        weight: u32,
    ) -> Option<Backend> {
        let at = reference.referenced;
        let (name, port) = match reference.value.rsplit_once(':') {
            None => (reference.value.as_str(), None),
            Some((name, port)) => match port.parse::<u16>() {
                Ok(port) if port > 0 => (name, Some(port)),
                _ => {
                    let reason = format!("{port:?} is not a port; use 1 to 65535");
                    self.problem(at, reason);
                    return None;
                }
            },
        };
        let name = name.strip_suffix(".svc.cluster.local").unwrap_or(name);
        let name = name.strip_suffix(".svc").unwrap_or(name);
        let parent = &services[parent];
        let near = |s: &&Service| s.name == name && s.namespace == parent.namespace;
        let far = |s: &&Service| {
            name.strip_prefix(s.name.as_str())
                .and_then(|rest| rest.strip_prefix('.'))
                == Some(s.namespace.as_str())
        };
        let Some(service) = services.iter().find(near).or(services.iter().find(far)) else {
            let reason = format!(
                "backend {:?} names no service of this file; add the service or write <name>.<namespace>",
                reference.value
            );
            self.problem(at, reason);
            return None;
        };
        let lacks = match port {
            Some(port) => (!service.ports.contains(&port)).then_some(port),
            // Without a port it is the one on which the traffic arrives, or the only one there is.
            None if service.ports.len() == 1 => None,
            None => parent
                .ports
                .iter()
                .find(|p| !service.ports.contains(p))
                .copied(),
        };
        if let Some(lacks) = lacks {
            let has: Vec<_> = service.ports.iter().map(u16::to_string).collect();
            let reason = format!(
                "backend {:?} has no port {lacks}; it has {}",
                reference.value,
                has.join(", ")
            );
            self.problem(at, reason);
            return None;
        }
        let only = (service.ports.len() == 1).then(|| service.ports[0]);
        Some(Backend {
            name: service.name.clone(),
            namespace: service.namespace.clone(),
            port: port.or(only),
            weight,
        })
    }
}

/// Whether it consists of labels as DNS has them, so that it can be part of an authority.
fn is_dns_name(name: &str) -> bool {
    name.len() <= 253
        && name.split('.').all(|label| {
            let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
            (1..=63).contains(&label.len())
                && label.bytes().all(inner)
                && !label.starts_with('-')
                && !label.ends_with('-')
        })
}

/// So that a weight fits its field on the wire.
const MAX_WEIGHT: f64 = 100_000.0;

/// So that the sum of many backends fits 32 bits.
const MAX_BACKEND_WEIGHT: u32 = 1_000_000;

#[cfg(test)]
mod tests;
