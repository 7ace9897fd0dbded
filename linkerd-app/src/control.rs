//! The control plane: look-up of its controllers, calls to them, and the clients of their APIs.
//!
//! Everything here runs on the control thread. Workers hold [`Discovery`] and [`Policies`], which are handles.

mod addresses;
mod body;
mod client;
mod connect;
mod default_policies;
mod dns;

pub use client::ControlClient;
pub use default_policies::default_policies;
pub use dns::control_addr;

use crate::{
    config::{self, Config},
    identity::{CertificateRenewal, MeshIdentity, ProxyCredentials, WorkloadApi},
    metrics::Families,
};
use client::{Controller, ControllerClient};
use linkerd_api_client::{
    GrpcCertificateSource, GrpcEndpointSource, GrpcPolicySource, GrpcProfileSource,
    GrpcServerPolicySource, GrpcSvidSource,
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
use std::{collections::BTreeSet, rc::Rc, sync::Arc};

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
    credentials: Option<Rc<ProxyCredentials>>,
    collector: Option<ControllerClient>,
}

/// The identity of the proxy, before it has a certificate.
pub struct IdentityParts {
    /// Its part in the mesh.
    pub mesh: MeshIdentity,
    /// Renews the certificate.
    pub renewal: CertificateRenewal,
    /// The condition of readiness that the first certificate meets.
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
        let (issuer, credentials) = match identity {
            None => (None, None),
            Some(IdentityParts {
                mesh,
                renewal,
                pending,
            }) => {
                let certificates = families.control.certificates.clone();
                match renewal {
                    CertificateRenewal::Certify(certifier) => {
                        let addr = certifier.controller();
                        let tls = addr.server_tls();
                        let client = start(
                            "identity",
                            &addr,
                            &families.control.identity,
                            resolutions.identity,
                            tls.map(|server| mesh.client_of_issuer(&server)),
                        );
                        let source = GrpcCertificateSource::new(client.client());
                        let credentials = certifier.start(source, certificates, pending);
                        (Some(client), Some(credentials))
                    }
                    CertificateRenewal::Spire(subscriber) => {
                        let socket = subscriber.socket();
                        let source = GrpcSvidSource::new(WorkloadApi { socket });
                        let credentials = subscriber.start(source, certificates, pending);
                        (None, Some(credentials))
                    }
                }
            }
        };
        let collector = config.trace.as_ref();
        let collector = collector.and_then(|trace| trace.collector.as_ref());
        let collector = collector.map(|addr| {
            start(
                "trace collector",
                addr,
                &families.control.trace_collector,
                resolutions.trace_collector,
                tls(addr),
            )
        });
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
            credentials,
            collector,
        })
    }

    /// Calls the collector of spans, if there is one.
    pub fn collector(&self) -> Option<ControlClient> {
        self.collector.as_ref().map(ControllerClient::client)
    }

    /// Controllers that no attempt has reached yet, and SPIRE without an SVID, with the cause.
    pub fn unreached(&self) -> Vec<String> {
        let controllers = self.controllers.iter();
        let controllers = controllers.filter_map(ControllerClient::unreached);
        let issuer = self.credentials.as_ref().and_then(|it| it.unissued());
        controllers.chain(issuer).collect()
    }

    /// The certificate, the requests for it and the trust anchors, for `/state`.
    pub fn inspect_identity(&self) -> serde_json::Value {
        let credentials = self.credentials.as_ref();
        credentials.map_or(serde_json::Value::Null, |it| it.inspect())
    }

    /// The controllers and their connections, for `/state`.
    pub fn inspect(&self) -> serde_json::Value {
        let all = self.controllers.iter().chain(&self.collector);
        all.map(ControllerClient::inspect).collect()
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
    let identity = identity.and_then(|identity| identity.controller());
    let identity = identity.is_some_and(needs);
    let collector = config.trace.as_ref();
    let collector = collector.and_then(|trace| trace.collector.as_ref());
    let collector = collector.is_some_and(needs);
    if !needs(&control.destination) && !needs(&control.policy) && !identity && !collector {
        return Ok(None);
    }
    Ok(Some(Arc::new(dns::BoundedTtl {
        inner: Arc::new(SystemResolver::new()?),
        bounds: config.dns,
    })))
}
