//! The metric families of both directions, under the incumbent's names.
//!
//! Declared once, here, so that their order in `/metrics` and the rows of `docs/metrics.md` are decided in one place.

mod balancer;
#[cfg(test)]
mod docs;
mod hedges;
mod identity;
mod inbound;
mod labels;
mod outbound;
mod profile_route;
mod retries;

pub use balancer::{BalancerFamilies, UpdateSeries};
pub use hedges::{HedgeCounts, HedgeFamilies, HedgeSkipped};
pub use identity::IdentityFamilies;
pub use inbound::{InboundFamilies, InboundRouteFamilies};
pub use labels::{
    EndpointLabels, backend_labels, client_tls_labels, inbound_meta_labels, meta_labels,
    server_tls_labels, target_labels,
};
pub use outbound::{OutboundFamilies, RouteFamilies, TcpRouteFamilies};
pub use profile_route::{ProfileRetries, ProfileRouteFamilies};
pub use retries::{CountRetries, PolicyRetries, RetryFamilies, RetrySkipped};

use linkerd_proxy_core::{
    metrics::{Counter, Family, Histogram, LATENCY_MS, Registry, RegistryStyle},
    transport::TransportMetrics,
};
use std::sync::Arc;

/// All families of the data path. Cheap to clone, shared by all threads; handles are taken for each thread.
#[derive(Clone, Debug)]
pub struct Families {
    /// `request_total`, `response_total`, `response_latency_ms`
    pub endpoint: Arc<EndpointFamilies>,
    /// `tcp_*`
    pub transport: TransportMetrics,
    /// `proxy_failures_total`: requests and connections that the proxy answered, closed or reset itself, by reason.
    pub failures: Family<Counter>,
    /// `stack_*`
    pub stack: StackFamilies,
    /// `outbound_*`
    pub outbound: OutboundFamilies,
    /// `route_*`
    pub profile_route: ProfileRouteFamilies,
    /// `inbound_*`
    pub inbound: InboundFamilies,
    /// `control_*`
    pub control: ControlFamilies,
}

/// Requests to an endpoint or the application, and their responses.
#[derive(Clone, Debug)]
pub struct EndpointFamilies {
    /// Requests sent.
    pub requests: Family<Counter>,
    /// Responses, by their class.
    pub responses: Family<Counter>,
    /// From the request to the first frame of the response's body.
    pub latency: Family<Histogram>,
}

/// Stacks that were built and dropped.
#[derive(Clone, Debug)]
pub struct StackFamilies {
    /// Built.
    pub created: Family<Counter>,
    /// Dropped.
    pub dropped: Family<Counter>,
}

/// Families of the controllers' clients.
#[derive(Clone, Debug)]
pub struct ControlFamilies {
    /// `control_request_total` and the other request families.
    pub endpoint: EndpointFamilies,
    /// `control_destination_balancer_*`
    pub destination: BalancerFamilies,
    /// `control_policy_balancer_*`
    pub policy: BalancerFamilies,
    /// `control_identity_balancer_*`
    pub identity: BalancerFamilies,
    /// `control_trace_collector_balancer_*`
    pub trace_collector: BalancerFamilies,
    /// `control_identity_cert_*`
    pub certificates: IdentityFamilies,
}

impl Families {
    /// Declares every family.
    pub fn register(registry: &Registry) -> Self {
        let inbound = InboundFamilies::register(registry);
        let outbound = OutboundFamilies::register(registry);
        let profile_route = ProfileRouteFamilies::register(registry);
        let endpoint = EndpointFamilies {
            requests: registry.counter(
                RegistryStyle::Legacy,
                "request_total",
                "Total count of HTTP requests",
            ),
            latency: registry.histogram(
                RegistryStyle::Legacy,
                "response_latency_ms",
                "Time from a request to the first frame of its response's body, in milliseconds",
                LATENCY_MS,
            ),
            responses: registry.counter(
                RegistryStyle::Legacy,
                "response_total",
                "Total count of HTTP responses, by class",
            ),
        };
        let control = ControlFamilies {
            endpoint: EndpointFamilies {
                requests: registry.counter(
                    RegistryStyle::Legacy,
                    "control_request_total",
                    "Total count of requests to controllers",
                ),
                latency: registry.histogram(
                    RegistryStyle::Legacy,
                    "control_response_latency_ms",
                    "Time from a request to a controller to its response, in milliseconds",
                    LATENCY_MS,
                ),
                responses: registry.counter(
                    RegistryStyle::Legacy,
                    "control_response_total",
                    "Total count of responses of controllers, by class",
                ),
            },
            destination: BalancerFamilies::register(
                registry,
                &balancer::CONTROL_DESTINATION_BALANCER,
            ),
            policy: BalancerFamilies::register(registry, &balancer::CONTROL_POLICY_BALANCER),
            identity: BalancerFamilies::register(registry, &balancer::CONTROL_IDENTITY_BALANCER),
            trace_collector: BalancerFamilies::register(
                registry,
                &balancer::CONTROL_TRACE_COLLECTOR_BALANCER,
            ),
            certificates: IdentityFamilies::register(registry),
        };
        let failures = registry.counter(
            RegistryStyle::OpenMetrics,
            "proxy_failures_total",
            "Requests that the proxy answered or reset itself and connections that it closed, by reason; see docs/reasons.md",
        );
        Self {
            endpoint: Arc::new(endpoint),
            failures,
            control,
            transport: TransportMetrics::register(registry),
            stack: StackFamilies {
                created: registry.counter(
                    RegistryStyle::Legacy,
                    "stack_create_total",
                    "Total number of services created",
                ),
                dropped: registry.counter(
                    RegistryStyle::Legacy,
                    "stack_drop_total",
                    "Total number of services dropped",
                ),
            },
            outbound,
            profile_route,
            inbound,
        }
    }
}
