//! The `inbound_*` families.

use super::outbound::{BACKEND_SECONDS, DETECT_SECONDS, REQUEST_SECONDS};
use linkerd_proxy_core::metrics::{BYTES, Counter, Family, Histogram, Registry, RegistryStyle};

/// Families of the inbound direction only.
#[derive(Clone, Debug)]
pub struct InboundFamilies {
    /// `inbound_http_errors_total`
    pub http_errors: Family<Counter>,
    /// `inbound_tcp_errors_total`
    pub tcp_errors: Family<Counter>,
    /// `inbound_tcp_detect_http_results_total`
    pub detect_results: Family<Counter>,
    /// `inbound_tcp_detect_silent_total`
    pub detect_silent: Family<Counter>,
    /// `inbound_tcp_detect_http_duration_seconds`
    pub detect_duration: Family<Histogram>,
    /// `inbound_tcp_transport_header_connections_total`
    pub transport_headers: Family<Counter>,
    /// `inbound_http_authz_allow_total`
    pub http_allow: Family<Counter>,
    /// `inbound_http_authz_deny_total`
    pub http_deny: Family<Counter>,
    /// `inbound_authz_denials_total`
    pub denials: Family<Counter>,
    /// `inbound_http_route_not_found_total`
    pub route_not_found: Family<Counter>,
    /// `inbound_http_local_ratelimit_total`
    pub rate_limited: Family<Counter>,
    /// `inbound_tcp_authz_allow_total`
    pub tcp_allow: Family<Counter>,
    /// `inbound_tcp_authz_deny_total`
    pub tcp_deny: Family<Counter>,
    /// `inbound_tcp_authz_terminate_total`
    pub tcp_terminate: Family<Counter>,
    /// `inbound_http_*` of routes
    pub http_route: InboundRouteFamilies,
    /// `inbound_grpc_*` of routes
    pub grpc_route: InboundRouteFamilies,
}

/// The families of one kind of route.
#[derive(Clone, Debug)]
pub struct InboundRouteFamilies {
    /// Requests that were let in.
    pub requests: Family<Counter>,
    /// From the request to the end of the response.
    pub request_duration: Family<Histogram>,
    /// From the end of the request to the end of the response.
    pub response_duration: Family<Histogram>,
    /// Frames of requests.
    pub request_frame_size: Family<Histogram>,
    /// Frames of responses.
    pub response_frame_size: Family<Histogram>,
    /// Responses by status.
    pub statuses: Family<Counter>,
}

impl InboundFamilies {
    pub(super) fn register(registry: &Registry) -> Self {
        let legacy = |name, help| registry.counter(RegistryStyle::Legacy, name, help);
        Self {
            transport_headers: registry.counter(
                RegistryStyle::OpenMetrics,
                "inbound_tcp_transport_header_connections_total",
                "Total count of direct connections of peer proxies, by their transport headers",
            ),
            http_allow: legacy(
                "inbound_http_authz_allow_total",
                "Total count of inbound HTTP requests that an authorization lets in",
            ),
            http_deny: legacy(
                "inbound_http_authz_deny_total",
                "Total count of inbound HTTP requests that no authorization lets in",
            ),
            denials: registry.counter(
                RegistryStyle::OpenMetrics,
                "inbound_authz_denials_total",
                "Inbound requests and connections that no authorization lets in, by the nearest authorization and its first unmet condition",
            ),
            route_not_found: legacy(
                "inbound_http_route_not_found_total",
                "Total count of inbound HTTP requests that no route is for",
            ),
            rate_limited: legacy(
                "inbound_http_local_ratelimit_total",
                "Total count of inbound HTTP requests beyond a rate limit",
            ),
            tcp_allow: legacy(
                "inbound_tcp_authz_allow_total",
                "Total count of inbound TCP connections that an authorization lets in",
            ),
            tcp_deny: legacy(
                "inbound_tcp_authz_deny_total",
                "Total count of inbound TCP connections that no authorization lets in",
            ),
            tcp_terminate: legacy(
                "inbound_tcp_authz_terminate_total",
                "Total count of inbound TCP connections that were closed as a changed policy does not let them in",
            ),
            http_errors: legacy(
                "inbound_http_errors_total",
                "Total count of inbound HTTP requests that the proxy answered with an error, without those that it did not let in",
            ),
            tcp_errors: legacy(
                "inbound_tcp_errors_total",
                "Total count of inbound TCP connections that ended with an error",
            ),
            detect_results: registry.counter(
                RegistryStyle::OpenMetrics,
                "inbound_tcp_detect_http_results_total",
                "Outcomes of inbound protocol detection",
            ),
            detect_silent: registry.counter(
                RegistryStyle::OpenMetrics,
                "inbound_tcp_detect_silent_total",
                "Inbound connections with a silent client, by the side that spoke first and its protocol",
            ),
            detect_duration: registry.histogram(
                RegistryStyle::OpenMetrics,
                "inbound_tcp_detect_http_duration_seconds",
                "Time that inbound protocol detection takes",
                DETECT_SECONDS,
            ),
            http_route: InboundRouteFamilies::register(registry, &HTTP),
            grpc_route: InboundRouteFamilies::register(registry, &GRPC),
        }
    }
}

impl InboundRouteFamilies {
    fn register(registry: &Registry, names: &RouteNames) -> Self {
        let counter = |name, help| registry.counter(RegistryStyle::OpenMetrics, name, help);
        let histogram =
            |name, help, bounds| registry.histogram(RegistryStyle::OpenMetrics, name, help, bounds);
        Self {
            requests: counter(names.requests, "Requests that a route has let in"),
            request_duration: histogram(
                names.request_duration,
                "Time from a request to the end of its response",
                BACKEND_SECONDS,
            ),
            response_duration: histogram(
                names.response_duration,
                "Time from the end of a request to the end of its response",
                REQUEST_SECONDS,
            ),
            request_frame_size: histogram(
                names.request_frame_size,
                "Sizes of the frames of requests",
                BYTES,
            ),
            response_frame_size: histogram(
                names.response_frame_size,
                "Sizes of the frames of responses",
                BYTES,
            ),
            statuses: counter(names.statuses, "Responses of a route by status"),
        }
    }
}

/// The names of a route's families.
struct RouteNames {
    requests: &'static str,
    request_duration: &'static str,
    response_duration: &'static str,
    request_frame_size: &'static str,
    response_frame_size: &'static str,
    statuses: &'static str,
}

macro_rules! route_names {
    ($prefix:literal) => {
        RouteNames {
            requests: concat!($prefix, "_requests_total"),
            request_duration: concat!($prefix, "_request_duration_seconds"),
            response_duration: concat!($prefix, "_response_duration_seconds"),
            request_frame_size: concat!($prefix, "_request_frame_size_bytes"),
            response_frame_size: concat!($prefix, "_response_frame_size_bytes"),
            statuses: concat!($prefix, "_statuses_total"),
        }
    };
}

const HTTP: RouteNames = route_names!("inbound_http");
const GRPC: RouteNames = route_names!("inbound_grpc");
