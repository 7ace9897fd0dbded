//! The answers of a mesh for each target.

use super::hosts::Known;
use super::model::{Backend, Mesh, Service, full_name};
use crate::content::EndpointSet;
use crate::endpoint::Endpoint;
use crate::policy::{Policy, Protocol, RouteRule};
use crate::profile::Profile;
use crate::server_policy::ServerPolicy;
use crate::state::{Content, ControllerTables, MeshTargets};
use crate::table::TargetTable;
use crate::target::{TargetKey, canonical};
use linkerd_api_proto::destination::DestinationProfile;
use linkerd_api_proto::inbound;
use linkerd_api_proto::outbound::OutboundPolicy;
use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The answers of a mesh by canonical target. All names and addresses of one service share an answer.
pub(crate) struct MeshAnswers {
    destinations: Answers<EndpointSet>,
    profiles: Answers<DestinationProfile>,
    policies: Answers<OutboundPolicy>,
    servers: Answers<inbound::Server>,
    /// For ports without a server.
    default_server: Option<Arc<inbound::Server>>,
    /// All names, for answers to unknown targets.
    names: Vec<String>,
}

type Answers<C> = BTreeMap<String, Arc<C>>;

/// The answers for a service, for look-ups by any of its names.
struct ServiceAnswers<'a> {
    service: &'a Service,
    endpoints: Vec<Endpoint>,
    set: Arc<EndpointSet>,
    ports: Vec<PortAnswers>,
}

struct PortAnswers {
    port: u16,
    policy: Arc<OutboundPolicy>,
    profile: Arc<DestinationProfile>,
}

impl Mesh {
    /// The policy and the profile of each service and port, as proxies receive them.
    pub fn messages(&self) -> impl Iterator<Item = (OutboundPolicy, DestinationProfile)> {
        self.services.iter().flat_map(|service| {
            let ports = service.ports.iter();
            ports.map(|port| (service.policy(*port), service.profile(*port)))
        })
    }

    /// The policy and the profile of a target, such as `web:80`, as proxies receive them.
    pub fn messages_of(&self, target: &str) -> Option<(OutboundPolicy, DestinationProfile)> {
        let mut answers = self.answers(&Known::default());
        let target = canonical(target);
        Some((
            Arc::unwrap_or_clone(answers.policies.remove(&target)?),
            Arc::unwrap_or_clone(answers.profiles.remove(&target)?),
        ))
    }

    /// The policy of each inbound port, as proxies receive it.
    pub fn servers(&self) -> impl Iterator<Item = (u16, inbound::Server)> {
        let servers = self.servers.iter();
        servers.map(|server| (server.port, server.policy.build()))
    }

    /// The answers, with the known addresses of host names.
    pub(crate) fn answers(&self, known: &Known) -> MeshAnswers {
        let mut answers = MeshAnswers {
            destinations: BTreeMap::new(),
            profiles: BTreeMap::new(),
            policies: BTreeMap::new(),
            servers: self.servers().map(of_port).collect(),
            default_server: self
                .default_policy
                .as_ref()
                .map(|policy| policy.build().into()),
            names: self.names(),
        };
        let services = self.services.iter();
        let services: Vec<_> = services.map(|s| ServiceAnswers::new(s, known)).collect();
        for of in &services {
            let addresses = of.service.addresses.iter().copied();
            answers.service(of, &of.service.own_names(), addresses);
        }
        // Declared names and addresses come before default and resolved ones: a bare name belongs to the service in the
        // namespace `default`, or else to the first service in the file.
        let is_default = |of: &&ServiceAnswers<'_>| of.service.namespace == "default";
        let (default, others): (Vec<_>, Vec<_>) = services.iter().partition(is_default);
        for of in default.into_iter().chain(others) {
            let addresses = of.service.resolved_addresses(known);
            answers.service(of, std::slice::from_ref(&of.service.name), addresses);
        }
        for of in &services {
            for endpoint in &of.endpoints {
                answers.endpoint(of.service, endpoint);
            }
        }
        answers
    }
}

impl MeshAnswers {
    /// Replaces the answers of the previous mesh. New endpoints are set before the policies that need them.
    pub(crate) fn apply(self, tables: &mut ControllerTables) {
        let old = std::mem::take(&mut tables.mesh);
        tables.policies.names = self.names;
        let has_default = self.default_server.is_some();
        let servers = &mut tables.servers;
        if has_default || old.has_default {
            servers.set(&TargetKey::Any, self.default_server);
        }
        let keys = MeshTargets {
            has_default,
            destinations: set(&mut tables.destinations, self.destinations),
            profiles: set(&mut tables.profiles, self.profiles),
            policies: set(&mut tables.policies, self.policies),
            servers: match has_default {
                true => set(&mut tables.servers, self.servers),
                false => set_and_open(&mut tables.servers, &old.servers, self.servers),
            },
        };
        unset(&mut tables.servers, &old.servers, &keys.servers);
        unset(&mut tables.policies, &old.policies, &keys.policies);
        unset(&mut tables.profiles, &old.profiles, &keys.profiles);
        unset(
            &mut tables.destinations,
            &old.destinations,
            &keys.destinations,
        );
        tables.mesh = keys;
    }

    /// Adds a service under these names and addresses, unless they are taken.
    fn service(
        &mut self,
        of: &ServiceAnswers<'_>,
        names: &[String],
        addresses: impl Iterator<Item = IpAddr>,
    ) {
        let addresses: Vec<_> = addresses.collect();
        for PortAnswers {
            port,
            policy,
            profile,
        } in &of.ports
        {
            let addresses = addresses.iter();
            let addresses = addresses.map(|ip| SocketAddr::new(*ip, *port).to_string());
            let authorities: Vec<_> = names.iter().map(|name| format!("{name}:{port}")).collect();
            for path in &authorities {
                let known = self.destinations.entry(path.clone());
                known.or_insert_with(|| of.set.clone());
            }
            for target in authorities.into_iter().chain(addresses) {
                let known = self.policies.entry(target.clone());
                known.or_insert_with(|| policy.clone());
                let known = self.profiles.entry(target);
                known.or_insert_with(|| profile.clone());
            }
        }
    }

    /// Adds an endpoint under its own address, unless a service has that address.
    fn endpoint(&mut self, service: &Service, endpoint: &Endpoint) {
        let target = canonical(&endpoint.addr.to_string());
        let mut endpoint = endpoint.clone();
        for (key, value) in &service.labels {
            let label = endpoint.labels.entry(key.clone());
            label.or_insert_with(|| value.clone());
        }
        let label = endpoint.labels.entry("namespace".to_owned());
        label.or_insert_with(|| service.namespace.clone());

        let policy = Policy::forward(endpoint.clone()).protocol(service.protocol);
        let known = self.policies.entry(target.clone());
        known.or_insert_with(|| Arc::new(policy.build()));
        let known = self.profiles.entry(target);
        known.or_insert_with(|| {
            Arc::new(DestinationProfile {
                opaque_protocol: service.protocol == Protocol::Opaque,
                endpoint: Some(endpoint.into()),
                ..DestinationProfile::default()
            })
        });
    }
}

impl<'a> ServiceAnswers<'a> {
    fn new(service: &'a Service, known: &Known) -> Self {
        let endpoints = service.known_endpoints(known);
        let set = EndpointSet::new(endpoints.iter().cloned()).labels(
            // Labels as from a control plane; labels in the file follow, and override them.
            [
                ("service", &service.name),
                ("namespace", &service.namespace),
            ]
            .into_iter()
            .chain(service.labels.iter().map(|(k, v)| (k.as_str(), v))),
        );
        // None of its host names has an address yet: that is not to have no endpoints.
        let set = match endpoints.is_empty() && !service.hosts.is_empty() {
            true => EndpointSet::unresolved(),
            false => set,
        };
        let ports = service.ports.iter().map(|&port| PortAnswers {
            port,
            policy: Arc::new(service.policy(port)),
            profile: Arc::new(service.profile(port)),
        });
        Self {
            service,
            endpoints,
            set: Arc::new(set),
            ports: ports.collect(),
        }
    }
}

impl Service {
    /// All names except the bare one, which another service may claim.
    fn own_names(&self) -> Vec<String> {
        let short = format!("{}.{}", self.name, self.namespace);
        let mut names = vec![self.full_name(), format!("{short}.svc"), short];
        names.extend(self.hostnames.iter().cloned());
        names
    }

    fn policy(&self, port: u16) -> OutboundPolicy {
        let shares = |backends: &[Backend]| -> Vec<_> {
            let share = |b: &Backend| {
                let (name, namespace) = (b.name.clone(), b.namespace.clone());
                (name, namespace, b.port.unwrap_or(port), b.weight)
            };
            backends.iter().map(share).collect()
        };
        let policy = match self.backends.is_empty() {
            true => Policy::balance(&self.name, port),
            false => Policy::split(&self.name, port, shares(&self.backends)),
        };
        let mut policy = policy.namespace(&self.namespace).protocol(self.protocol);
        for route in &self.routes {
            let dispatch = |rule: RouteRule, backends: &[Backend]| match backends.is_empty() {
                true => rule,
                false => rule.split_among(shares(backends)),
            };
            policy = policy.route(route.policy_route(dispatch));
        }
        if let Some(breaker) = self.breaker {
            policy = policy.failure_accrual(breaker);
        }
        policy.build()
    }

    fn profile(&self, port: u16) -> DestinationProfile {
        let mut profile = Profile::new(self.full_name());
        if self.protocol == Protocol::Opaque {
            profile = profile.opaque();
        }
        let target = |backend: &Backend| {
            let name = full_name(&backend.name, &backend.namespace);
            let port = backend.port.unwrap_or(port);
            (format!("{name}:{port}"), backend.weight)
        };
        if let Some(of_service) = &self.profile {
            profile = of_service.add_to(profile, target);
        }
        profile.build()
    }
}

fn set<C: Content>(table: &mut TargetTable<C>, contents: Answers<C>) -> HashSet<String> {
    let keys = contents.keys().cloned().collect();
    for (target, content) in contents {
        table.set(&TargetKey::One(target), Some(content));
    }
    keys
}

fn of_port((port, server): (u16, inbound::Server)) -> (String, Arc<inbound::Server>) {
    (format!(":{port}"), Arc::new(server))
}

/// Sets the policies of ports, where the file has no default policy. A port that was removed from the file is opened to all,
/// like a port without a `Server` in a cluster: a proxy keeps the last policy that it got.
fn set_and_open(
    table: &mut TargetTable<inbound::Server>,
    old: &HashSet<String>,
    mut servers: Answers<inbound::Server>,
) -> HashSet<String> {
    for port in old {
        if !servers.contains_key(port) {
            let open = ServerPolicy::all_unauthenticated().build();
            if table
                .content(&TargetKey::One(port.clone()))
                .is_none_or(|present| **present != open)
            {
                tracing::warn!(
                    port = port.trim_start_matches(':'),
                    "The server of a port was removed from the mesh file: the port is open to all clients. \
                     `defaultAccessPolicy: deny` closes ports without a server",
                );
            }
            servers.insert(port.clone(), Arc::new(open));
        }
    }
    set(table, servers)
}

fn unset<C: Content>(table: &mut TargetTable<C>, old: &HashSet<String>, new: &HashSet<String>) {
    for gone in old.difference(new) {
        table.set(&TargetKey::One(gone.clone()), None);
    }
}

#[cfg(test)]
mod tests;
