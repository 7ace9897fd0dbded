//! References of services to others: backends of the service and of its routes, and targets of its profile.

use super::checker::Checker;
use crate::mesh::backend_ref::BackendRef;
use crate::mesh::decl;
use crate::mesh::form::{Given, Spanned};
use crate::mesh::model::{Backend, Service};
use crate::mesh::near::near;
use crate::mesh::profile::ServiceProfile;
use crate::mesh::routes::ServiceRoute;

/// The references of one service, to be resolved when all services are known.
pub(super) struct References {
    backends: Vec<BackendRef>,
    routes: Vec<ServiceRoute<BackendRef>>,
    profile: Option<ServiceProfile<BackendRef>>,
}

impl References {
    /// Takes the references out of a declaration.
    pub(super) fn take(service: &mut decl::Service) -> Self {
        Self {
            backends: std::mem::take(&mut service.backends),
            routes: std::mem::take(&mut service.routes),
            profile: service.profile.take(),
        }
    }

    /// Sets the backends, routes and profile of the service at `index`.
    pub(super) fn resolve(self, checker: &mut Checker, services: &mut [Service], index: usize) {
        let mut resolve = |references| checker.backends(services, index, references);
        let backends = resolve(self.backends);
        let routes = self.routes.into_iter();
        let routes = routes.map(|route| route.map(&mut resolve)).collect();
        let profile = self.profile.map(|mut profile| {
            let targets = resolve(std::mem::take(&mut profile.targets));
            profile.with_targets(targets)
        });
        let service = &mut services[index];
        service.backends = backends;
        service.routes = routes;
        service.profile = profile;
    }
}

impl Checker {
    fn backends(
        &mut self,
        services: &[Service],
        parent: usize,
        backends: Vec<BackendRef>,
    ) -> Vec<Backend> {
        let first = backends.first().map(|b| b.service.at);
        let mut good = Vec::new();
        for backend in &backends {
            let (weight, at) = match &backend.weight {
                Given::Is(weight) => (weight.value, weight.at),
                Given::Absent | Given::Wrong => (1, backend.service.at),
            };
            match u32::try_from(weight) {
                Ok(weight) if weight <= MAX_BACKEND_WEIGHT => {
                    good.extend(self.backend(services, parent, &backend.service, weight));
                }
                _ => self.problem(
                    at,
                    format!("weight {weight} is not between 0 and {MAX_BACKEND_WEIGHT}"),
                ),
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
        let at = reference.at;
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
        let same = |s: &&Service| s.name == name && s.namespace == parent.namespace;
        let other = |s: &&Service| {
            name.strip_prefix(s.name.as_str())
                .and_then(|rest| rest.strip_prefix('.'))
                == Some(s.namespace.as_str())
        };
        let Some(service) = services.iter().find(same).or(services.iter().find(other)) else {
            if !self.partial {
                let meant = near(name, services.iter().map(|s| s.name.as_str()));
                let remedy = match meant {
                    Some(meant) => format!("did you mean {meant:?}?"),
                    None => "add the service or write <name>.<namespace>".to_owned(),
                };
                let reason = format!(
                    "backend {:?} names no service of this file; {remedy}",
                    reference.value
                );
                self.problem(at, reason);
            }
            return None;
        };
        // Invalid ports have been reported.
        if service.ports.is_empty() {
            return None;
        }
        let lacks = match port {
            Some(port) => (!service.ports.contains(&port)).then_some(port),
            // A reference without a port means the port of the traffic, or the only port.
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

/// Keeps the sum of many backends within 32 bits.
const MAX_BACKEND_WEIGHT: u32 = 1_000_000;
