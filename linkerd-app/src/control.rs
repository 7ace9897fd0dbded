//! The control plane: look-up of its controllers, calls to them, and the clients of their APIs.
//!
//! Everything here runs on the control thread. Workers hold [`Discovery`] and [`Policies`], which are handles.

mod client;
mod connect;
mod default_policies;
mod dns;

pub use client::ControlClient;
pub use default_policies::default_policies;

use crate::{
    config::{self, Config},
    identity::{Certifier, CertifierState, IdentityStartError, MeshIdentity},
    metrics::Families,
};
use client::{Controller, ControllerClient};
use linkerd_api_client::{
    GrpcCertificateSource, GrpcEndpointSource, GrpcPolicySource, GrpcProfileSource,
    GrpcServerPolicySource,
};
use linkerd_discover::{
    Discovery, DiscoveryConfig,
    dns::{DnsError, Resolve, SystemResolver},
};
use linkerd_profiles::{
    Policies, PoliciesConfig, ServerPolicies, ServerPoliciesConfig, ServiceProfiles,
    ServiceProfilesConfig,
};
use linkerd_proxy_core::{
    metrics::Registry, readiness::PendingCondition, transport::OwnConnections,
};
use std::{collections::BTreeSet, sync::Arc};

/// The clients of the control plane.
pub struct ControlPlane {
    /// Endpoint discovery.
    pub discovery: Discovery,
    /// Policies and profiles.
    pub policies: Policies,
    /// Policies of inbound ports.
    pub server_policies: ServerPolicies,
    /// Profiles of the services that inbound requests are for.
    pub service_profiles: ServiceProfiles,
    controllers: Vec<ControllerClient>,
    certifier: Option<CertifierState>,
}

/// The identity of the proxy, before it has a certificate.
pub struct IdentityParts {
    /// Its part in the mesh.
    pub mesh: MeshIdentity,
    /// Requests the certificate.
    pub certifier: Certifier,
    /// Readiness waits for the first one.
    pub pending: PendingCondition,
}

/// Errors that prevent the start of the controllers' clients.
#[derive(Debug, thiserror::Error)]
pub enum ControlStartError {
    /// Names cannot be resolved.
    #[error(
        "the system's DNS configuration cannot be read ({0}); the control plane is addressed by name"
    )]
    Dns(#[from] DnsError),
    /// The identity controller cannot be called.
    #[error(transparent)]
    Identity(#[from] IdentityStartError),
}

impl ControlPlane {
    /// Starts to resolve the controllers, and to watch the policies of ports, among them the admin server's. Must be called on
    /// the control thread.
    pub fn start(
        config: &Config,
        registry: &Registry,
        families: &Families,
        own: &OwnConnections,
        identity: Option<IdentityParts>,
        admin_port: u16,
    ) -> Result<Self, ControlStartError> {
        let control = &config.control;
        let resolver = resolver(config)?;
        let resolutions = dns::register(registry);
        let mesh = identity.as_ref().map(|identity| identity.mesh.clone());
        let tls = |addr: &config::ControlAddr| {
            let (mesh, server) = (mesh.as_ref()?, addr.server_tls()?);
            Some(mesh.client(&server))
        };
        let start = |role, addr: &config::ControlAddr, balancer, resolutions, tls| {
            let dns = dns::NameLookup {
                resolver: resolver.clone(),
                resolutions,
            };
            let controller = Controller {
                role,
                config: addr,
                dns,
                balancer,
                tls,
            };
            let families = &families.control.endpoint;
            ControllerClient::start(controller, &control.http2, families, own)
        };
        let destination = start(
            "destination",
            &control.destination,
            &families.control.destination,
            resolutions.destination,
            tls(&control.destination),
        );
        let policy = start(
            "policy",
            &control.policy,
            &families.control.policy,
            resolutions.policy,
            tls(&control.policy),
        );
        let (issuer, certifier) = match (identity, &config.identity) {
            (Some(identity), Some(config)) => {
                let addr = &config.controller;
                let server = addr.server_tls();
                let tls = server.map(|server| identity.mesh.client_of_issuer(&server));
                let client = start(
                    "identity",
                    addr,
                    &families.control.identity,
                    resolutions.identity,
                    tls.transpose()?,
                );
                let source = GrpcCertificateSource::new(client.client());
                let families = families.control.certificates.clone();
                let state = identity.certifier.start(source, families, identity.pending);
                (Some(client), Some(state))
            }
            _ => (None, None),
        };
        let runtime = tokio::runtime::Handle::current();
        let outbound = &config.outbound;
        let discovery = Discovery::new(
            GrpcEndpointSource::new(destination.client(), &control.context),
            DiscoveryConfig {
                limits: control.destination.limits,
                backoff: control.destination.connect.backoff,
                idle_timeout: outbound.discovery_idle,
                max_destinations: config.discovery.max_destinations,
                max_endpoints: config.discovery.max_endpoints,
            },
            runtime.clone(),
        );
        let (networks, names) = (
            control.profile_networks.clone(),
            control.profile_suffixes.clone(),
        );
        let policies = Policies::new(
            GrpcPolicySource::new(policy.client(), &control.workload),
            GrpcProfileSource::new(destination.client(), &control.context),
            PoliciesConfig {
                profile_networks: Arc::new(move |ip| networks.contains(ip)),
                profile_names: Arc::new(move |name| names.matches(name)),
                limits: control.policy.limits,
                policy_backoff: control.policy.connect.backoff,
                profile_backoff: control.destination.connect.backoff,
                idle_timeout: outbound.discovery_idle,
                max_entries: config.discovery.max_destinations,
                detect_timeout: outbound.detect_timeout,
                forward_unknown: outbound.allow_unknown,
            },
            runtime.clone(),
        );
        let server_policies = ServerPolicies::new(
            GrpcServerPolicySource::new(policy.client(), &control.workload)
                .admit_loopback(config.inbound.admit_loopback),
            ServerPoliciesConfig {
                defaults: default_policies(config),
                eager_ports: eager_ports(config, admin_port),
                limits: control.policy.limits,
                backoff: control.policy.connect.backoff,
                idle_timeout: config.inbound.discovery_idle,
                max_entries: config.discovery.max_destinations,
            },
            runtime.clone(),
        );
        let names = control.profile_suffixes.clone();
        let service_profiles = ServiceProfiles::new(
            GrpcProfileSource::new(destination.client(), &control.context),
            ServiceProfilesConfig {
                names: Arc::new(move |name| names.matches(name)),
                limits: control.destination.limits,
                backoff: control.destination.connect.backoff,
                idle_timeout: config.inbound.discovery_idle,
                max_entries: config.discovery.max_destinations,
            },
            runtime,
        );
        Ok(Self {
            discovery,
            policies,
            server_policies,
            service_profiles,
            controllers: [destination, policy].into_iter().chain(issuer).collect(),
            certifier,
        })
    }

    /// Controllers that no attempt has reached yet, with the cause.
    pub fn unreached(&self) -> Vec<String> {
        let controllers = self.controllers.iter();
        controllers
            .filter_map(ControllerClient::unreached)
            .collect()
    }

    /// The certificate and the requests for it, for `/state`.
    pub fn inspect_identity(&self) -> serde_json::Value {
        self.certifier
            .as_ref()
            .map_or(serde_json::Value::Null, CertifierState::inspect)
    }

    /// The controllers and their connections, for `/state`.
    pub fn inspect(&self) -> serde_json::Value {
        self.controllers
            .iter()
            .map(ControllerClient::inspect)
            .collect()
    }
}

/// The inbound ports whose policies are watched from the start. A proxy without an inbound listener has none.
fn eager_ports(config: &Config, admin: u16) -> BTreeSet<u16> {
    let inbound = &config.inbound;
    let Some(listen) = inbound.listen else {
        return BTreeSet::new();
    };
    let gateway = (!inbound.gateway_suffixes.is_empty()).then(|| listen.port());
    let others = gateway.into_iter().chain([admin]);
    let ports = inbound.ports.iter().copied().chain(others);
    ports.filter(|port| *port > 0).collect()
}

/// The system's resolver, unless all controllers are addresses: such a proxy runs without a `resolv.conf`.
fn resolver(config: &Config) -> Result<Option<Arc<dyn Resolve>>, ControlStartError> {
    let control = &config.control;
    let needs = |addr: &config::ControlAddr| {
        matches!(addr.addr, config::Addr::Name { .. }) && !addr.is_loopback
    };
    let identity = config.identity.as_ref();
    let identity = identity.is_some_and(|identity| needs(&identity.controller));
    if !needs(&control.destination) && !needs(&control.policy) && !identity {
        return Ok(None);
    }
    Ok(Some(Arc::new(dns::BoundedTtl {
        inner: Arc::new(SystemResolver::new()?),
        bounds: config.dns,
    })))
}
