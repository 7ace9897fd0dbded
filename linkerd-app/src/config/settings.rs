//! The configuration as the proxy uses it: plain values that have passed every check.

use super::{Addr, NameSuffixes, Networks};
use linkerd_proxy_core::Backoff;
use linkerd_proxy_core::http::{Http2Settings, PoolSettings, QueueSettings};
use linkerd_proxy_core::transport::SocketOptions;
use std::collections::{BTreeSet, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Everything that is configured at start.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Traffic from the application.
    pub outbound: Outbound,
    /// Traffic to the application.
    pub inbound: Inbound,
    /// The admin server.
    pub admin: Admin,
    /// The control plane and what is asked of it.
    pub control: Control,
    /// Name resolution.
    pub dns: Dns,
    /// Bounds of what discovery may return.
    pub discovery: Discovery,
    /// How many workers may run.
    pub workers: Workers,
    /// Logging.
    pub log: Log,
    /// How long a client may take to send the headers of a request once it began.
    pub header_timeout: Duration,
    /// How long connections may drain at shutdown.
    pub shutdown_grace: Duration,
}

/// Traffic from the application to its peers.
#[derive(Clone, Debug, PartialEq)]
pub struct Outbound {
    /// Where to listen: one or two addresses.
    pub listen: Vec<SocketAddr>,
    /// The backlog of `listen(2)`. `None` leaves the default.
    pub backlog: Option<u32>,
    /// Options of accepted sockets.
    pub accept: SocketOptions,
    /// How peers are dialled.
    pub connect: Connect,
    /// How long a client may take to show its protocol.
    pub detect_timeout: Duration,
    /// How long what was discovered is kept without use.
    pub discovery_idle: Duration,
    /// The queue in front of a balancer of connections.
    pub tcp_queue: QueueSettings,
    /// The queue in front of a balancer of requests.
    pub http_queue: QueueSettings,
    /// The most requests in flight; what exceeds them is shed.
    pub max_in_flight: usize,
    /// Idle HTTP/1 connections of an endpoint.
    pub pool: PoolSettings,
    /// HTTP/2 with the application.
    pub http2_server: Http2Settings,
    /// HTTP/2 with peers.
    pub http2_client: Http2Settings,
    /// The most HTTP/2 connections of a worker to an endpoint.
    pub http2_max_connections: usize,
    /// The most bytes of a request's body kept to send it again. 0: none.
    pub replay_max_bytes: usize,
    /// Whether the listener also serves as an explicit proxy.
    pub explicit: bool,
    /// Whether loopback addresses may be dialled.
    pub allow_loopback: bool,
    /// Whether traffic to what has no policy is let through.
    pub allow_unknown: bool,
    /// Whether requests are routed by `l5d-dst-override`.
    pub ingress_mode: bool,
    /// Whether responses carry informational headers such as `l5d-proxy-error`.
    pub emit_headers: bool,
    /// Whether route metrics have real `hostname` labels.
    pub hostname_labels: bool,
}

/// Traffic from peers to the application.
#[derive(Clone, Debug, PartialEq)]
pub struct Inbound {
    /// Where to listen. Its port is also that of direct connections, and never dialled. `None`: no
    /// listener.
    pub listen: Option<SocketAddr>,
    /// The backlog of `listen(2)`, also of the admin server. `None` leaves the default.
    pub backlog: Option<u32>,
    /// Options of accepted sockets, also of the admin server.
    pub accept: SocketOptions,
    /// How the application is dialled.
    pub connect: Connect,
    /// How long a client may take to show its protocol.
    pub detect_timeout: Duration,
    /// How long what was discovered is kept without use.
    pub discovery_idle: Duration,
    /// The queue in front of the application.
    pub http_queue: QueueSettings,
    /// The most requests in flight; what exceeds them is shed.
    pub max_in_flight: usize,
    /// Idle HTTP/1 connections to the application.
    pub pool: PoolSettings,
    /// HTTP/2 with peers.
    pub http2_server: Http2Settings,
    /// HTTP/2 with the application.
    pub http2_client: Http2Settings,
    /// The addresses of this workload, the only ones that inbound traffic may be for. Empty: any.
    pub ips: HashSet<IpAddr>,
    /// Ports whose policies are watched from the start and for ever.
    pub ports: BTreeSet<u16>,
    /// Ports that are opaque until the control plane says otherwise.
    pub opaque_ports: BTreeSet<u16>,
    /// The policy of ports that the control plane has not told of yet.
    pub default_policy: DefaultPolicy,
    /// Names that a gateway may forward to.
    pub gateway_suffixes: NameSuffixes,
    /// How long a request waits for its profile before it goes without.
    pub profile_timeout: Duration,
    /// Whether metrics have an `authority` label.
    pub authority_labels: bool,
}

/// How something is dialled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Connect {
    /// How long TCP and TLS may take together.
    pub timeout: Duration,
    /// The pauses between tries.
    pub backoff: Backoff,
    /// Options of dialled sockets.
    pub socket: SocketOptions,
}

/// The policy of ports that the control plane has not told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DefaultPolicy {
    /// Nothing is let through; connections are closed.
    Deny,
    /// Every client with a mesh identity.
    AllAuthenticated,
    /// Every client.
    AllUnauthenticated,
    /// Clients in the cluster's networks that have a mesh identity.
    ClusterAuthenticated,
    /// Clients in the cluster's networks.
    ClusterUnauthenticated,
    /// Every client, and what would have been denied is logged.
    Audit,
}

/// The admin server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admin {
    /// Where to listen.
    pub listen: SocketAddr,
    /// How long a metric without use is kept.
    pub metrics_retain_idle: Duration,
    /// Whether `POST /shutdown` is served.
    pub shutdown_enabled: bool,
}

/// The control plane, and what it is told and asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Control {
    /// The destination controller.
    pub destination: ControlAddr,
    /// The policy controller.
    pub policy: ControlAddr,
    /// HTTP/2 with controllers.
    pub http2: Http2Settings,
    /// Sent as it is with each question to the destination controller.
    pub context: String,
    /// Sent as it is with each question to the policy controller.
    pub workload: String,
    /// Names whose profiles are looked up.
    pub profile_suffixes: NameSuffixes,
    /// Addresses whose profiles are looked up.
    pub profile_networks: Networks,
    /// The networks of the cluster, for default policies that depend on them.
    pub cluster_networks: Networks,
}

/// One controller.
#[derive(Clone, Debug, PartialEq)]
pub struct ControlAddr {
    /// Where it is.
    pub addr: Addr,
    /// Its identity and server name. `None` on loopback, where no TLS is spoken.
    pub tls_name: Option<String>,
    /// Whether it is on loopback.
    pub is_loopback: bool,
    /// How it is dialled: as the application when it is on loopback, else as a peer.
    pub connect: Connect,
    /// Limits of its streams. None on loopback.
    pub limits: StreamLimits,
}

/// Limits of a discovery stream. `None`: unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamLimits {
    /// How long the first message may take.
    pub initial: Option<Duration>,
    /// How long the next message may take.
    pub idle: Option<Duration>,
    /// How old the stream may get before it is opened anew.
    pub lifetime: Option<Duration>,
}

/// Bounds of how long a resolved name is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dns {
    /// At least this long.
    pub min_ttl: Option<Duration>,
    /// At most this long.
    pub max_ttl: Option<Duration>,
}

/// Bounds of what discovery may return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Discovery {
    /// The most destinations known at a time.
    pub max_destinations: usize,
    /// The most endpoints of a destination.
    pub max_endpoints: usize,
}

/// How many workers may run. [`decide_workers`](super::decide_workers) makes a number of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workers {
    /// At least these, as far as there are cores.
    pub min: usize,
    /// How many are wanted.
    pub max: Option<usize>,
    /// How many are wanted, as a share of the cores that can be used. Counts only without `max`.
    pub max_ratio: Option<f64>,
}

/// Logging.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Directives of the filter, or `off`.
    pub filter: String,
    /// The form of a line.
    pub format: LogFormat,
    /// The form of access log lines. `None`: no access log.
    pub access_log: Option<AccessLog>,
}

/// The form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text for people.
    Plain,
    /// One JSON object.
    Json,
}

/// The form of an access log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessLog {
    /// The common log format.
    Apache,
    /// One JSON object.
    Json,
}

impl DefaultPolicy {
    /// All of them.
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

impl Log {
    /// Whether nothing is logged at all.
    pub fn is_off(&self) -> bool {
        self.filter.trim().eq_ignore_ascii_case("off")
    }
}
