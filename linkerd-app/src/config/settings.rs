//! The configuration as plain values that have passed every check.

use super::{
    AccessLogConfig, AccessLogOutput, ConnectConfig, ControlAddr, IdentityConfig, NameSuffixes,
    Networks, TapConfig, TraceResourceConfig,
};
use linkerd_balance::{LoadKind, Preferences};
use linkerd_proxy_core::http::{Http2Settings, PoolSettings, QueueSettings};
use linkerd_proxy_core::transport::SocketOptions;
use std::collections::{BTreeSet, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// The whole configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Traffic from the application.
    pub outbound: OutboundConfig,
    /// Traffic to the application.
    pub inbound: InboundConfig,
    /// The admin server.
    pub admin: AdminConfig,
    /// The control plane and the proxy's parameters to it.
    pub control: ControlConfig,
    /// The identity of the proxy. `None`: nothing is encrypted.
    pub identity: Option<IdentityConfig>,
    /// Name resolution.
    pub dns: DnsConfig,
    /// Bounds of discovery.
    pub discovery: DiscoveryConfig,
    /// The number of workers.
    pub workers: WorkersConfig,
    /// Logging.
    pub log: LogConfig,
    /// Taps.
    pub tap: TapConfig,
    /// The access log. `None`: there is none.
    pub access_log: Option<AccessLogConfig>,
    /// Tracing. `None`: there is none.
    pub trace: Option<TraceConfig>,
    /// Limit for a client to send the headers of a request, once begun.
    pub header_timeout: Duration,
    /// Times of a shutdown.
    pub shutdown: ShutdownConfig,
}

/// Tracing: at least one of `collector` and `output` is there.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceConfig {
    /// The collector that spans are sent to.
    pub collector: Option<ControlAddr>,
    /// The output of finished traces, for a person.
    pub output: Option<AccessLogOutput>,
    /// The share of requests without a sampling decision that are sampled here.
    pub sample: f64,
    /// Whether spans show queries, which they do if the access log does.
    pub with_query: bool,
    /// The attributes of the process.
    pub resource: TraceResourceConfig,
}

/// Times of a shutdown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShutdownConfig {
    /// The longest drain of connections.
    pub grace: Duration,
    /// After a signal, the time over which connections are asked to move. The proxy ends when it had none for this time.
    pub window: Duration,
}

/// Traffic from the application to its peers.
#[derive(Clone, Debug, PartialEq)]
pub struct OutboundConfig {
    /// Listening addresses: one or two.
    pub listen: Vec<SocketAddr>,
    /// The backlog of `listen(2)`. `None` leaves the default.
    pub backlog: Option<u32>,
    /// Options of accepted sockets.
    pub accept: SocketOptions,
    /// Dialling of peers.
    pub connect: ConnectConfig,
    /// Limit of protocol detection.
    pub detect_timeout: Duration,
    /// Retention of unused discovery results.
    pub discovery_idle: Duration,
    /// The queue in front of a balancer of connections.
    pub tcp_queue: QueueSettings,
    /// The queue in front of a balancer of requests.
    pub http_queue: QueueSettings,
    /// The most requests in flight; more are shed.
    pub max_in_flight: usize,
    /// Idle HTTP/1 connections of an endpoint.
    pub pool: PoolSettings,
    /// HTTP/2 with the application.
    pub http2_server: Http2Settings,
    /// HTTP/2 with peers.
    pub http2_client: Http2Settings,
    /// Balancers of requests.
    pub balancer: BalancerConfig,
    /// The most HTTP/2 connections of a worker to an endpoint.
    pub http2_max_connections: usize,
    /// The most bytes of a request's body kept to be sent again. 0: none.
    pub replay_max_bytes: usize,
    /// Hedging of requests. `None`: there is none.
    pub hedge: Option<HedgeSettings>,
    /// Whether the listener also serves as an explicit proxy.
    pub explicit: bool,
    /// Whether loopback addresses may be dialled.
    pub allow_loopback: bool,
    /// Whether traffic to destinations without a policy is forwarded.
    pub allow_unknown: bool,
    /// Whether requests are routed by `l5d-dst-override`.
    pub ingress_mode: bool,
    /// Whether responses carry informational headers such as `l5d-proxy-error`.
    pub emit_headers: bool,
    /// Whether route metrics have real `hostname` labels.
    pub hostname_labels: bool,
}

/// Balancers of requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BalancerConfig {
    /// The measure of load.
    pub load: LoadKind,
    /// Preferences beyond the load.
    pub preferences: Preferences,
}

/// Hedging of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HedgeSettings {
    /// The percentile of a route's recent latencies after which a request is sent once more.
    pub percentile: f64,
    /// The least time before that.
    pub min_delay: Duration,
    /// The most bytes of a request's body kept for that.
    pub max_bytes: usize,
}

/// Traffic from peers to the application.
#[derive(Clone, Debug, PartialEq)]
pub struct InboundConfig {
    /// Listening address. Its port is also that of direct connections, and never dialled. `None`: no listener.
    pub listen: Option<SocketAddr>,
    /// The backlog of `listen(2)`, also of the admin server. `None` leaves the default.
    pub backlog: Option<u32>,
    /// Options of accepted sockets, also of the admin server.
    pub accept: SocketOptions,
    /// Dialling of the application.
    pub connect: ConnectConfig,
    /// Limit of protocol detection.
    pub detect_timeout: Duration,
    /// Retention of unused discovery results.
    pub discovery_idle: Duration,
    /// The queue in front of the application.
    pub http_queue: QueueSettings,
    /// The most requests in flight; more are shed.
    pub max_in_flight: usize,
    /// Idle HTTP/1 connections to the application.
    pub pool: PoolSettings,
    /// HTTP/2 with peers.
    pub http2_server: Http2Settings,
    /// HTTP/2 with the application.
    pub http2_client: Http2Settings,
    /// The addresses of this workload, the only allowed destinations of inbound traffic. Empty: any.
    pub ips: HashSet<IpAddr>,
    /// Ports whose policies are watched from the start and for ever.
    pub ports: BTreeSet<u16>,
    /// Ports that are opaque until the control plane says otherwise.
    pub opaque_ports: BTreeSet<u16>,
    /// The policy of ports without a policy from the control plane.
    pub default_policy: DefaultPolicy,
    /// Whether servers of the control plane admit all clients on loopback.
    pub admit_loopback: bool,
    /// Whether connections that are not HTTP are closed on ports whose protocol is detected.
    pub detected_http_only: bool,
    /// The headers with the address of the client, for the application.
    pub forwarded_header: ForwardedHeader,
    /// Ports of the application whose connections begin with a header of the PROXY protocol.
    pub proxy_protocol_ports: BTreeSet<u16>,
    /// Names that a gateway may forward to.
    pub gateway_suffixes: NameSuffixes,
    /// Time that a request waits for its profile.
    pub profile_timeout: Duration,
    /// Whether metrics have an `authority` label.
    pub authority_labels: bool,
}

/// The headers with the address of the client, for the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardedHeader {
    /// None: headers from clients are passed on.
    Off,
    /// `forwarded` (RFC 7239).
    Forwarded,
    /// `x-forwarded-for`.
    XForwardedFor,
    /// Both.
    Both,
}

/// The policy of ports without a policy from the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DefaultPolicy {
    /// No client; connections are closed.
    Deny,
    /// Every client with a mesh identity.
    AllAuthenticated,
    /// Every client.
    AllUnauthenticated,
    /// Clients in the cluster's networks that have a mesh identity.
    ClusterAuthenticated,
    /// Clients in the cluster's networks.
    ClusterUnauthenticated,
    /// Every client; a client that another policy would deny is logged.
    Audit,
}

/// The admin server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdminConfig {
    /// Listening address.
    pub listen: SocketAddr,
    /// Retention of unused series.
    pub metrics_retain_idle: Duration,
    /// Whether histograms have native buckets, too.
    pub native_histograms: bool,
    /// Whether `POST /shutdown` is served.
    pub shutdown_enabled: bool,
    /// The clients that may open the console.
    pub console: ConsoleAccess,
}

/// The clients that may open the console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsoleAccess {
    /// None.
    Off,
    /// Clients on this host.
    Loopback,
    /// Clients that the policy of the admin port lets in. They may read `/state` and `/explain` as well.
    All,
}

/// The control plane, and the proxy's parameters to it.
#[derive(Clone, Debug, PartialEq)]
pub struct ControlConfig {
    /// The destination controller.
    pub destination: ControlAddr,
    /// The policy controller.
    pub policy: ControlAddr,
    /// HTTP/2 with controllers.
    pub http2: Http2Settings,
    /// Sent verbatim with each request to the destination controller.
    pub context: String,
    /// Sent verbatim with each request to the policy controller.
    pub workload: String,
    /// Names whose profiles are looked up.
    pub profile_suffixes: NameSuffixes,
    /// Addresses whose profiles are looked up.
    pub profile_networks: Networks,
    /// The networks of the cluster, for default policies that depend on them.
    pub cluster_networks: Networks,
}

/// Bounds of the time to live of resolved names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DnsConfig {
    /// At least this long.
    pub min_ttl: Option<Duration>,
    /// At most this long.
    pub max_ttl: Option<Duration>,
}

/// Bounds of discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiscoveryConfig {
    /// The most destinations known at a time.
    pub max_destinations: usize,
    /// The most endpoints of a destination.
    pub max_endpoints: usize,
}

/// The number of workers, decided by [`decide_workers`](super::decide_workers).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkersConfig {
    /// The fewest, as far as there are cores.
    pub min: usize,
    /// The wanted number.
    pub max: Option<usize>,
    /// The wanted number as a share of the usable cores. Only without `max`.
    pub max_ratio: Option<f64>,
}

/// Logging.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// Directives of the filter, or `off`.
    pub filter: String,
    /// The form of a line.
    pub format: LogFormat,
}

/// The form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Plain text.
    Plain,
    /// One JSON object.
    Json,
}

impl DefaultPolicy {
    /// All default policies.
    pub const ALL: [Self; 6] = [
        Self::Deny,
        Self::AllAuthenticated,
        Self::AllUnauthenticated,
        Self::ClusterAuthenticated,
        Self::ClusterUnauthenticated,
        Self::Audit,
    ];

    /// The name in the environment and in metric labels.
    pub fn name(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::AllAuthenticated => "all-authenticated",
            Self::AllUnauthenticated => "all-unauthenticated",
            Self::ClusterAuthenticated => "cluster-authenticated",
            Self::ClusterUnauthenticated => "cluster-unauthenticated",
            Self::Audit => "audit",
        }
    }

    /// Whether the policy is only accepted together with the networks of the cluster.
    pub fn needs_cluster_networks(self) -> bool {
        matches!(
            self,
            Self::ClusterAuthenticated | Self::ClusterUnauthenticated | Self::Audit
        )
    }
}

impl LogConfig {
    /// Whether logging is off.
    pub fn is_off(&self) -> bool {
        self.filter.trim().eq_ignore_ascii_case("off")
    }
}
