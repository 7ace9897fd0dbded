//! The `outbound_*` families.

use super::{
    balancer::{BalancerFamilies, HTTP_BALANCER, TCP_BALANCER, TLS_BALANCER},
    hedges::{HedgeFamilies, HedgeNames, hedge_names},
    labels::{meta_labels, route_meta_labels},
    retries::{RetryFamilies, RetryNames, retry_names},
};
use linkerd_profiles::Meta;
use linkerd_proxy_core::metrics::{
    BYTES, Counter, Family, Histogram, HistogramBounds, HistogramUnit, Labels, Registry,
    RegistryStyle,
};

/// Families of the outbound direction only.
#[derive(Clone, Debug)]
pub struct OutboundFamilies {
    /// `outbound_http_errors_total`
    pub http_errors: Family<Counter>,
    /// `outbound_tcp_errors_total`
    pub tcp_errors: Family<Counter>,
    /// `outbound_tcp_protocol_connections_total`
    pub protocol_connections: Family<Counter>,
    /// `outbound_tcp_detect_http_results_total`
    pub detect_results: Family<Counter>,
    /// `outbound_tcp_detect_silent_total`
    pub detect_silent: Family<Counter>,
    /// `outbound_tcp_detect_http_duration_seconds`
    pub detect_duration: Family<Histogram>,
    /// `outbound_http_route_*`
    pub http: RouteFamilies,
    /// `outbound_grpc_route_*`
    pub grpc: RouteFamilies,
    /// `outbound_tcp_route_*`
    pub tcp_route: TcpRouteFamilies,
    /// `outbound_tls_route_*`
    pub tls_route: TcpRouteFamilies,
    /// `outbound_tcp_transfer_cost_bytes_total`
    pub transfer_cost: Family<Counter>,
    /// `outbound_http_balancer_*`
    pub http_balancer: BalancerFamilies,
    /// `outbound_tcp_balancer_*`
    pub tcp_balancer: BalancerFamilies,
    /// `outbound_tls_balancer_*`
    pub tls_balancer: BalancerFamilies,
}

/// The families of the connections of one kind of route.
#[derive(Clone, Debug)]
pub struct TcpRouteFamilies {
    /// Given to a route.
    pub open: Family<Counter>,
    /// Ended.
    pub close: Family<Counter>,
}

/// The families of one kind of route.
#[derive(Clone, Debug)]
pub struct RouteFamilies {
    /// From the request to the end of the response.
    pub request_duration: Family<Histogram>,
    /// Responses by status.
    pub request_statuses: Family<Counter>,
    /// Frames of requests.
    pub request_frame_size: Family<Histogram>,
    /// Requests given to a backend.
    pub backend_requests: Family<Counter>,
    /// From the end of the request to the end of the response.
    pub backend_duration: Family<Histogram>,
    /// A backend's responses by status.
    pub backend_statuses: Family<Counter>,
    /// Frames of responses.
    pub backend_frame_size: Family<Histogram>,
    /// Requests that are sent again.
    pub retries: RetryFamilies,
    /// Requests that are sent once more while their response is awaited.
    pub hedges: HedgeFamilies,
}

impl OutboundFamilies {
    /// The families of the routes of a protocol.
    pub fn of_routes(&self, is_grpc: bool) -> &RouteFamilies {
        match is_grpc {
            true => &self.grpc,
            false => &self.http,
        }
    }

    pub(super) fn register(registry: &Registry) -> Self {
        let legacy = |name, help| registry.counter(RegistryStyle::Legacy, name, help);
        let open = |name, help| registry.counter(RegistryStyle::OpenMetrics, name, help);
        Self {
            http_errors: legacy(
                "outbound_http_errors_total",
                "Total count of outbound HTTP requests that the proxy failed for itself, not for an endpoint; proxy_failures_total has all",
            ),
            tcp_errors: legacy(
                "outbound_tcp_errors_total",
                "Total count of outbound TCP connections that ended with an error",
            ),
            protocol_connections: open(
                "outbound_tcp_protocol_connections_total",
                "Outbound connections by the protocol that they were treated as",
            ),
            detect_results: open(
                "outbound_tcp_detect_http_results_total",
                "Outcomes of outbound protocol detection",
            ),
            detect_silent: open(
                "outbound_tcp_detect_silent_total",
                "Outbound connections with a silent client, by the side that spoke first and its protocol",
            ),
            detect_duration: registry.histogram(
                RegistryStyle::OpenMetrics,
                "outbound_tcp_detect_http_duration_seconds",
                "Time that outbound protocol detection takes",
                DETECT_SECONDS,
            ),
            http: RouteFamilies::register(registry, &HTTP_ROUTE),
            grpc: RouteFamilies::register(registry, &GRPC_ROUTE),
            tcp_route: TcpRouteFamilies {
                open: open(
                    "outbound_tcp_route_open_total",
                    "Opaque connections given to a route",
                ),
                close: open(
                    "outbound_tcp_route_close_total",
                    "Opaque connections of a route that have ended",
                ),
            },
            tls_route: TcpRouteFamilies {
                open: open(
                    "outbound_tls_route_open_total",
                    "TLS connections given to a route by their server name",
                ),
                close: open(
                    "outbound_tls_route_close_total",
                    "TLS connections of a route that have ended",
                ),
            },
            transfer_cost: open(
                "outbound_tcp_transfer_cost_bytes_total",
                "Bytes exchanged with endpoints, by whether they are in the same zone",
            ),
            http_balancer: BalancerFamilies::register(registry, &HTTP_BALANCER),
            tcp_balancer: BalancerFamilies::register(registry, &TCP_BALANCER),
            tls_balancer: BalancerFamilies::register(registry, &TLS_BALANCER),
        }
    }
}

impl RouteFamilies {
    fn register(registry: &Registry, names: &RouteNames) -> Self {
        let counter = |name, help| registry.counter(RegistryStyle::OpenMetrics, name, help);
        let histogram =
            |name, help, bounds| registry.histogram(RegistryStyle::OpenMetrics, name, help, bounds);
        Self {
            request_duration: histogram(
                names.request_duration,
                "Time from a request to the end of its response",
                REQUEST_SECONDS,
            ),
            request_statuses: counter(names.request_statuses, "Responses of a route by status"),
            request_frame_size: histogram(
                names.request_frame_size,
                "Sizes of the frames of requests",
                BYTES,
            ),
            backend_requests: counter(names.backend_requests, "Requests given to a backend"),
            backend_duration: histogram(
                names.backend_duration,
                "Time from the end of a request to the end of its response",
                BACKEND_SECONDS,
            ),
            backend_statuses: counter(names.backend_statuses, "Responses of a backend by status"),
            backend_frame_size: histogram(
                names.backend_frame_size,
                "Sizes of the frames of responses",
                BYTES,
            ),
            retries: RetryFamilies::register(registry, &names.retries),
            hedges: HedgeFamilies::register(registry, &names.hedges),
        }
    }

    /// The labels of a route.
    pub fn route_labels(parent: &Meta, route: &Meta, hostname: &str) -> Labels {
        let labels = meta_labels(Labels::new(), "parent", parent);
        route_meta_labels(labels, "route", route).with("hostname", hostname)
    }

    /// The labels of a route of connections.
    pub fn connection_labels(parent: &Meta, route: &Meta) -> Labels {
        route_meta_labels(meta_labels(Labels::new(), "parent", parent), "route", route)
    }

    /// The labels of a backend of a route.
    pub fn backend_labels(parent: &Meta, route: &Meta, backend: &Meta) -> Labels {
        let labels = meta_labels(Labels::new(), "parent", parent);
        meta_labels(
            route_meta_labels(labels, "route", route),
            "backend",
            backend,
        )
    }
}

/// The names of a route's families.
struct RouteNames {
    request_duration: &'static str,
    request_statuses: &'static str,
    request_frame_size: &'static str,
    backend_requests: &'static str,
    backend_duration: &'static str,
    backend_statuses: &'static str,
    backend_frame_size: &'static str,
    retries: RetryNames,
    hedges: HedgeNames,
}

macro_rules! route_names {
    ($prefix:literal) => {
        RouteNames {
            request_duration: concat!($prefix, "_request_duration_seconds"),
            request_statuses: concat!($prefix, "_request_statuses_total"),
            request_frame_size: concat!($prefix, "_request_frame_size_bytes"),
            backend_requests: concat!($prefix, "_backend_requests_total"),
            backend_duration: concat!($prefix, "_backend_response_duration_seconds"),
            backend_statuses: concat!($prefix, "_backend_response_statuses_total"),
            backend_frame_size: concat!($prefix, "_backend_response_frame_size_bytes"),
            retries: retry_names!($prefix),
            hedges: hedge_names!($prefix),
        }
    };
}

const HTTP_ROUTE: RouteNames = route_names!("outbound_http_route");
const GRPC_ROUTE: RouteNames = route_names!("outbound_grpc_route");

/// Bounds in seconds, of microseconds and texts.
macro_rules! seconds {
    ($($micros:literal $text:literal),+) => {
        &HistogramBounds { buckets: &[$(($micros * 1_000, $text)),+], unit: HistogramUnit::Seconds }
    };
}

pub(super) use seconds;

pub(super) const DETECT_SECONDS: &HistogramBounds = seconds!(1_000 "0.001", 100_000 "0.1");
pub(super) const REQUEST_SECONDS: &HistogramBounds =
    seconds!(50_000 "0.05", 500_000 "0.5", 1_000_000 "1.0", 10_000_000 "10.0");
pub(super) const BACKEND_SECONDS: &HistogramBounds = seconds!(
    25_000 "0.025", 50_000 "0.05", 100_000 "0.1", 250_000 "0.25", 500_000 "0.5",
    1_000_000 "1.0", 10_000_000 "10.0"
);
