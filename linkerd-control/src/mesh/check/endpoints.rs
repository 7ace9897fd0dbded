//! The endpoints of a service: addresses and host names.

use super::checker::Checker;
use crate::endpoint::Endpoint;
use crate::mesh::decl;
use crate::mesh::form::Spanned;
use crate::mesh::host_name::is_host_name;
use crate::mesh::ipv6::bracketed_ipv6;
use crate::mesh::model::{HostEndpoint, Service};
use crate::mesh::position::Position;
use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr};

impl Checker {
    /// The endpoints with addresses, and those with host names.
    pub(super) fn endpoints(
        &mut self,
        endpoints: Vec<Spanned<decl::Endpoint>>,
    ) -> (Vec<Endpoint>, Vec<HostEndpoint>) {
        let first = endpoints.first().map(|e| e.at);
        let count = endpoints.len();
        let mut seen = HashSet::new();
        let (mut addresses, mut hosts) = (Vec::new(), Vec::new());
        for Spanned { value: decl, at } in endpoints {
            let Some((host, addr)) = self.address(&decl.address, at) else {
                continue;
            };
            if !seen.insert((host.clone(), addr)) {
                self.problem(at, format!("endpoint {} is listed twice", decl.address));
            }
            let weight = decl.weight;
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
            let endpoint = match decl.protocol {
                Some(decl::Hint::H2) => endpoint.h2(),
                Some(decl::Hint::Opaque) => endpoint.opaque(),
                None => endpoint,
            };
            if decl.proxy.port == Some(addr.port()) {
                let reason = format!(
                    "endpoint {} has the `proxyPort` itself; give the port of the application in the address",
                    decl.address
                );
                self.problem(at, reason);
            }
            let endpoint = Endpoint {
                identity: decl.proxy.identity,
                inbound_port: decl.proxy.port,
                ..endpoint
            };
            match host {
                Some(host) => hosts.push(HostEndpoint { host, endpoint }),
                None => addresses.push(endpoint),
            }
        }
        let mut good = addresses.iter().chain(hosts.iter().map(|h| &h.endpoint));
        if let Some(at) = first
            && addresses.len() + hosts.len() == count
            && good.all(|e| e.weight == 0)
        {
            self.problem(
                at,
                "all endpoints have weight 0; give one of them a higher weight",
            );
        }
        (addresses, hosts)
    }

    /// An endpoint's address; for a host name, the name and an address with only a valid port.
    fn address(&mut self, text: &str, at: Position) -> Option<(Option<String>, SocketAddr)> {
        let host_and_port = || {
            let (host, port) = text.rsplit_once(':')?;
            let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
            let addr = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port.parse().ok()?));
            is_host_name(&host).then_some((Some(host), addr))
        };
        let parsed = match text.parse::<SocketAddr>() {
            Ok(addr) => Some((None, addr)),
            Err(_) => host_and_port(),
        };
        match parsed {
            Some((_, addr)) if addr.port() == 0 => {
                self.problem(at, format!("endpoint {text} has port 0; use 1 to 65535"));
                None
            }
            Some(parsed) => Some(parsed),
            None if text.contains('@') => {
                // The text before it may be a secret.
                let reason = "an endpoint's address has no user, no password and no `@`; write an IP address or a \
                              host name with a port, such as 127.0.0.1:9001";
                self.problem(at, reason);
                None
            }
            None => {
                let form = match bracketed_ipv6(text) {
                    Some(bracketed) => {
                        format!("an IPv6 address in brackets, with a port: '{bracketed}'")
                    }
                    None => "an IP address or a host name with a port, such as 127.0.0.1:9001"
                        .to_owned(),
                };
                self.problem(
                    at,
                    format!("{text:?} is not an endpoint's address; write {form}"),
                );
                None
            }
        }
    }

    /// Limits the number of host names, as each is resolved periodically.
    pub(super) fn hosts(&mut self, services: &[Service]) {
        let hosts: HashSet<_> = services.iter().flat_map(Service::all_hosts).collect();
        if hosts.len() > MAX_HOSTS {
            let reason = format!(
                "endpoints and addresses have {} host names, more than {MAX_HOSTS}; write addresses",
                hosts.len()
            );
            self.problem(Position::START, reason);
        }
    }
}

/// Keeps a weight within its field on the wire.
const MAX_WEIGHT: f64 = 100_000.0;

/// The most host names: each is resolved by its own task.
const MAX_HOSTS: usize = 1_000;

#[cfg(test)]
mod tests;
