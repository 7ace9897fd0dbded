//! Every variable of the proxy, each declared once.
//!
//! A row reads `prefix NAME: Grammar = default, status, unit, since`, under its documentation:
//!
//! - *prefix*: `linkerd2` for variables of linkerd2-proxy, with exactly their meaning; `linkerd` for those of this
//!   proxy only; `bare` for names without a prefix.
//! - *default*: `default("text")`, read with the row's own grammar; `derived("how")` if other variables give it;
//!   `required`; `unset`.
//! - *status*: `used`; `ignored` for variables that are accepted and have no effect, on purpose.
//!
//! Each row becomes a constant, by which the loader reads it, and an item of [`VARIABLES`].

use super::grammar::kinds::*;
use super::grammar::{Grammar, ValueKind};
use std::marker::PhantomData;

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// The whole name.
    pub name: &'static str,
    /// Its heading in the documentation.
    pub group: &'static str,
    /// Its documentation: one line of text for each line of the table.
    pub doc: &'static [&'static str],
    /// The grammar of its value.
    pub kind: ValueKind,
    /// The value if it is not set.
    pub default: VariableDefault,
    /// The unit of a bare number; empty where the grammar has units or there is none.
    pub unit: &'static str,
    /// Its status.
    pub status: VariableStatus,
    /// The first version with it.
    pub since: &'static str,
}

/// The value of a variable that is not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableDefault {
    /// This text, read with the row's grammar.
    Text(&'static str),
    /// Derived, as this text describes.
    Derived(&'static str),
    /// None: the variable must be set.
    Required,
    /// None: the setting is off, or left to a library or the system.
    Unset,
}

/// The status of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableStatus {
    /// It has an effect.
    Used,
    /// It is accepted and has no effect, on purpose.
    Ignored,
}

/// A variable whose value is read with the grammar `G`. `D`: whether it has a default.
#[derive(Debug)]
pub struct VariableKey<G, const D: bool> {
    variable: Variable,
    grammar: PhantomData<fn() -> G>,
}

/// A variable that has a default.
pub type DefaultedKey<G> = VariableKey<G, true>;

/// A variable without a default.
pub type OptionalKey<G> = VariableKey<G, false>;

impl<G: Grammar, const D: bool> VariableKey<G, D> {
    const fn new(variable: Variable) -> Self {
        Self {
            variable,
            grammar: PhantomData,
        }
    }

    /// The row.
    pub const fn variable(&self) -> &Variable {
        &self.variable
    }

    /// The name.
    pub const fn name(&self) -> &'static str {
        self.variable.name
    }
}

impl<G: Grammar> DefaultedKey<G> {
    /// The value if the variable is not set.
    pub fn default(&self) -> G::Value {
        match self.variable.default {
            VariableDefault::Text(text) => G::parse(text).ok(),
            _ => None,
        }
        .expect("a variable with a default has a valid one: a test reads them all")
    }
}

impl Variable {
    /// Whether the name has a prefix of the proxy: without one, other programs share the variable.
    pub fn is_prefixed(&self) -> bool {
        PREFIXES.iter().any(|prefix| self.name.starts_with(prefix))
    }
}

macro_rules! prefixed {
    (linkerd2 $($id:ident)?) => { concat!("LINKERD2_PROXY_" $(, stringify!($id))?) };
    (linkerd $($id:ident)?) => { concat!("LINKERD_PROXY_" $(, stringify!($id))?) };
    (bare $id:ident) => { stringify!($id) };
}

/// Prefixes of the proxy's own names.
pub const PREFIXES: [&str; 2] = [prefixed!(linkerd2), prefixed!(linkerd)];

macro_rules! default_of {
    (default $text:literal) => {
        VariableDefault::Text($text)
    };
    (derived $text:literal) => {
        VariableDefault::Derived($text)
    };
    (required) => {
        VariableDefault::Required
    };
    (unset) => {
        VariableDefault::Unset
    };
}

macro_rules! key_of {
    (default $grammar:ident) => { DefaultedKey<$grammar> };
    ($other:ident $grammar:ident) => { OptionalKey<$grammar> };
}

macro_rules! status_of {
    (used) => {
        VariableStatus::Used
    };
    (ignored) => {
        VariableStatus::Ignored
    };
}

macro_rules! variables {
    ($( $group:literal { $(
        $(#[doc = $doc:literal])+
        $prefix:ident $id:ident: $grammar:ident = $default:ident $(($default_text:literal))?,
        $status:ident, $(unit($unit:literal),)? since($since:literal);
    )+ } )+) => {
        $($(
            $(#[doc = $doc])+
            pub const $id: key_of!($default $grammar) = VariableKey::new(Variable {
                name: prefixed!($prefix $id),
                group: $group,
                doc: &[$($doc),+],
                kind: ValueKind::of::<$grammar>(),
                default: default_of!($default $($default_text)?),
                unit: concat!($($unit)?),
                status: status_of!($status),
                since: $since,
            });
        )+)+

        /// Every row of the table, in its order.
        pub static VARIABLES: &[Variable] = &[ $($( *$id.variable() ),+),+ ];
    };
}

variables! {
    "Listeners" {
        /// Where outbound traffic is accepted: one or two addresses, such as one for IPv4 and one for IPv6.
        linkerd2 OUTBOUND_LISTEN_ADDRS: SocketAddresses = derived("OUTBOUND_LISTEN_ADDR"), used, since("0.1");
        /// Where outbound traffic is accepted, if the list above is not set.
        linkerd2 OUTBOUND_LISTEN_ADDR: SocketAddress = default("127.0.0.1:4140"), used, since("0.1");
        /// Where inbound traffic is accepted. Its port is also the one of direct connections between proxies.
        linkerd2 INBOUND_LISTEN_ADDR: SocketAddress = default("0.0.0.0:4143"), used, since("0.1");
        /// Whether there is an inbound listener. `run --mesh` opens none unless its address is set.
        linkerd INBOUND_ENABLED: Switch = default("true"), used, since("0.1");
        /// Where the admin server listens.
        linkerd2 ADMIN_LISTEN_ADDR: SocketAddress = default("127.0.0.1:4191"), used, since("0.1");
        /// Where the tap server listens, if `TAP_SVC_NAME` is set.
        linkerd2 CONTROL_LISTEN_ADDR: SocketAddress = default("0.0.0.0:4190"), used, since("0.1");
        /// The backlog of `listen(2)`, also of the admin server.
        linkerd2 INBOUND_TCP_LISTEN_BACKLOG: Number = unset, used, unit("connections"), since("0.1");
        /// The backlog of `listen(2)`.
        linkerd2 OUTBOUND_TCP_LISTEN_BACKLOG: Number = unset, used, unit("connections"), since("0.1");
    }

    "Workers" {
        /// Stands in for `CORES_MIN` when that is not set. An invalid value is warned about and skipped.
        linkerd2 CORES: Cores = unset, used, unit("workers"), since("0.1");
        /// The fewest workers, as far as there are cores. An invalid value is warned about and skipped.
        linkerd2 CORES_MIN: Cores = default("1"), used, unit("workers"), since("0.1");
        /// How many workers are wanted. An invalid value is warned about and skipped.
        linkerd2 CORES_MAX: Cores = unset, used, unit("workers"), since("0.1");
        /// How many workers are wanted, as a share of the cores that can be used, if `CORES_MAX` is not set.
        /// An invalid value is warned about and skipped.
        linkerd2 CORES_MAX_RATIO: Ratio = unset, used, since("0.1");
    }

    "Logging" {
        /// Directives that choose the lines to log, as in `warn,linkerd=info`; `off` for none. Invalid directives are
        /// reported on standard error and dropped.
        linkerd2 LOG: Text = default("warn,linkerd=info,hickory=error"), used, since("0.1");
        /// The form of log lines. An invalid value is warned about and skipped.
        linkerd2 LOG_FORMAT: LogFormat = default("plain"), used, since("0.1");
    }

    "Access log" {
        /// The form of a line for each inbound HTTP request, as linkerd2-proxy writes it; unset: no access log. With `LOG=off`
        /// there is none, either. An invalid value is warned about and skipped.
        linkerd2 ACCESS_LOG: AccessLog = unset, used, since("0.1");
        /// The form of a line for each HTTP request of both directions, in place of that of linkerd2-proxy: `full`, a JSON
        /// object with all that is known, or `text`, for a person. It does not depend on `LOG`.
        linkerd ACCESS_LOG_FORMAT: AccessLogFormat = unset, used, since("0.1");
        /// Where access log lines are written. A file is appended to, and opened again on SIGHUP. On standard output they are
        /// written between the lines of the log.
        linkerd ACCESS_LOG_OUTPUT: AccessLogOutput = default("stderr"), used, since("0.1");
        /// The share of successful requests that are logged. Failed ones always are. For `full` and `text`.
        linkerd ACCESS_LOG_SAMPLE: Share = default("1"), used, since("0.1");
        /// Whether the query of paths and referers is in the access log (`full` and `text`), and the query of URLs in spans.
        linkerd ACCESS_LOG_QUERY: Switch = default("false"), used, since("0.1");
        /// Request headers that are logged, by name. `authorization`, `proxy-authorization`, cookies and `l5d-*` never are, even
        /// if they are listed. For `full`.
        linkerd ACCESS_LOG_HEADERS: HeaderNames = unset, used, since("0.1");
    }

    "Admin and shutdown" {
        /// How long metrics that don't change are kept.
        linkerd2 METRICS_RETAIN_IDLE: Duration = default("10m"), used, since("0.1");
        /// Whether histograms count in native buckets as well, each 9 % wider than the one before, which scrapers get that
        /// accept the protobuf format. Takes 1.5 KB for each histogram's series.
        linkerd METRICS_NATIVE_HISTOGRAMS: Bool = default("false"), used, since("0.1");
        /// Whether the admin server serves `POST /shutdown`.
        linkerd2 SHUTDOWN_ENDPOINT_ENABLED: Bool = default("false"), used, since("0.1");
        /// Who may open `/console`: nobody, clients on this host, or all that the policy of the admin port lets in. With `all`
        /// they may read `/state` and `/explain` too, which the page shows.
        linkerd ADMIN_CONSOLE: ConsoleAccess = default("loopback"), used, since("0.1");
        /// How long connections may drain at shutdown.
        linkerd2 SHUTDOWN_GRACE_PERIOD: Duration = default("2m"), used, since("0.1");
        /// After SIGTERM, the time over which open connections are asked to move, and without any after which the proxy ends.
        /// New ones are served until then. With `0s` the listeners close at once, as those of linkerd2-proxy do.
        linkerd SHUTDOWN_WINDOW: Duration = default("1s"), used, since("0.1");
    }

    "Sockets" {
        /// TCP_KEEPIDLE and TCP_KEEPINTVL of accepted sockets. SO_KEEPALIVE itself is always on.
        linkerd2 INBOUND_ACCEPT_KEEPALIVE: Duration = default("10s"), used, since("0.1");
        /// TCP_KEEPIDLE and TCP_KEEPINTVL of accepted sockets. SO_KEEPALIVE itself is always on.
        linkerd2 OUTBOUND_ACCEPT_KEEPALIVE: Duration = unset, used, since("0.1");
        /// TCP_KEEPIDLE and TCP_KEEPINTVL of sockets to the application. SO_KEEPALIVE itself is always on.
        linkerd2 INBOUND_CONNECT_KEEPALIVE: Duration = unset, used, since("0.1");
        /// TCP_KEEPIDLE and TCP_KEEPINTVL of sockets to peers. SO_KEEPALIVE itself is always on.
        linkerd2 OUTBOUND_CONNECT_KEEPALIVE: Duration = default("10s"), used, since("0.1");
        /// TCP_USER_TIMEOUT of accepted sockets.
        linkerd2 INBOUND_ACCEPT_USER_TIMEOUT: Duration = default("30s"), used, since("0.1");
        /// TCP_USER_TIMEOUT of accepted sockets.
        linkerd2 OUTBOUND_ACCEPT_USER_TIMEOUT: Duration = unset, used, since("0.1");
        /// TCP_USER_TIMEOUT of sockets to the application.
        linkerd2 INBOUND_CONNECT_USER_TIMEOUT: Duration = unset, used, since("0.1");
        /// TCP_USER_TIMEOUT of sockets to peers.
        linkerd2 OUTBOUND_CONNECT_USER_TIMEOUT: Duration = default("30s"), used, since("0.1");
        /// How long connecting to the application may take; also to controllers on loopback.
        linkerd2 INBOUND_CONNECT_TIMEOUT: Duration = default("300ms"), used, since("0.1");
        /// How long connecting to a peer may take, with TLS; also to controllers that are not on loopback.
        linkerd2 OUTBOUND_CONNECT_TIMEOUT: Duration = default("1s"), used, since("0.1");
        /// The first pause before connecting to the application again. Needs the maximum to be set, too.
        linkerd2 INBOUND_CONNECT_EXP_BACKOFF_MIN: Duration = default("100ms"), used, since("0.1");
        /// The longest pause before connecting to the application again. Needs the minimum to be set, too.
        linkerd2 INBOUND_CONNECT_EXP_BACKOFF_MAX: Duration = default("10s"), used, since("0.1");
        /// The most that is added to a pause at random, as a share of it (up to 100).
        /// Needs minimum and maximum to be set; it is 0 when they are and this is not.
        linkerd2 INBOUND_CONNECT_EXP_BACKOFF_JITTER: Float = default("0.1"), used, since("0.1");
        /// The first pause before connecting to a peer again; also of streams from the control plane.
        /// Needs the maximum to be set, too.
        linkerd2 OUTBOUND_CONNECT_EXP_BACKOFF_MIN: Duration = default("100ms"), used, since("0.1");
        /// The longest pause before connecting to a peer again. Needs the minimum to be set, too.
        linkerd2 OUTBOUND_CONNECT_EXP_BACKOFF_MAX: Duration = default("60s"), used, since("0.1");
        /// The most that is added to a pause at random, as a share of it (up to 100).
        /// Needs minimum and maximum to be set; it is 0 when they are and this is not.
        linkerd2 OUTBOUND_CONNECT_EXP_BACKOFF_JITTER: Float = default("0.1"), used, since("0.1");
        /// How long a client may take to show its protocol.
        linkerd2 INBOUND_DETECT_TIMEOUT: Duration = default("10s"), used, since("0.1");
        /// How long a client may take to show its protocol.
        linkerd2 OUTBOUND_DETECT_TIMEOUT: Duration = default("10s"), used, since("0.1");
        /// Resolved names are kept for at least this long.
        linkerd2 DNS_MIN_TTL: Duration = unset, used, since("0.1");
        /// Resolved names are kept for at most this long.
        linkerd2 DNS_MAX_TTL: Duration = unset, used, since("0.1");
    }

    "HTTP" {
        /// The most requests that wait for the application.
        linkerd2 INBOUND_HTTP_QUEUE_CAPACITY: Count = default("10000"), used, unit("requests"), since("0.1");
        /// How long requests wait for the application before they fail fast.
        linkerd2 INBOUND_HTTP_FAILFAST_TIMEOUT: Duration = default("1s"), used, since("0.1");
        /// The most connections that wait for an endpoint.
        linkerd2 OUTBOUND_TCP_QUEUE_CAPACITY: Count = default("10000"), used, unit("connections"), since("0.1");
        /// How long connections wait for an endpoint before they fail fast.
        linkerd2 OUTBOUND_TCP_FAILFAST_TIMEOUT: Duration = default("3s"), used, since("0.1");
        /// The most requests that wait for an endpoint.
        linkerd2 OUTBOUND_HTTP_QUEUE_CAPACITY: Count = default("10000"), used, unit("requests"), since("0.1");
        /// How long requests wait for an endpoint before they fail fast.
        linkerd2 OUTBOUND_HTTP_FAILFAST_TIMEOUT: Duration = default("3s"), used, since("0.1");
        /// The most requests in flight; more are shed, but for those of source addresses that hold few: there are as many places again for
        /// these.
        linkerd2 INBOUND_MAX_IN_FLIGHT: Count = default("100000"), used, unit("requests"), since("0.1");
        /// The most requests in flight; more are shed.
        linkerd2 OUTBOUND_MAX_IN_FLIGHT: Count = default("100000"), used, unit("requests"), since("0.1");
        /// The most idle HTTP/1 connections to the application. The name really has no direction.
        linkerd2 MAX_IDLE_CONNS_PER_ENDPOINT: Count = default("10000"), used, unit("connections"), since("0.1");
        /// Another name of the one above, which wins if both are set.
        linkerd2 INBOUND_MAX_IDLE_CONNS_PER_ENDPOINT: Count = derived("MAX_IDLE_CONNS_PER_ENDPOINT"), used,
            unit("connections"), since("0.1");
        /// The most idle HTTP/1 connections to an endpoint.
        linkerd2 OUTBOUND_MAX_IDLE_CONNS_PER_ENDPOINT: Count = default("10000"), used, unit("connections"),
            since("0.1");
        /// How long a connection to the application is kept idle.
        linkerd2 INBOUND_HTTP1_CONNECTION_POOL_IDLE_TIMEOUT: Duration = default("3s"), used, since("0.1");
        /// How long a connection to an endpoint is kept idle.
        linkerd2 OUTBOUND_HTTP1_CONNECTION_POOL_IDLE_TIMEOUT: Duration = default("3s"), used, since("0.1");
        /// How long a client may take to send the headers of a request once it began. Idling is not limited by it.
        linkerd HTTP_HEADER_TIMEOUT: Duration = default("60s"), used, since("0.1");
        /// The load that balancers of requests compare: `peak-ewma` (the latency, times the requests in flight; with penalties if the
        /// policy has them), or `least-pending` (the requests in flight until the end of their responses), for mixtures of
        /// long and short ones.
        linkerd OUTBOUND_BALANCER_LOAD: BalancerLoad = default("peak-ewma"), used, since("0.1");
        /// The time in which an endpoint that joins others gets its share of the requests by and by; 0 for all of it at once.
        linkerd OUTBOUND_BALANCER_SLOW_START: Duration = default("0s"), used, since("0.1");
        /// Whether requests go to endpoints in the zone of this proxy, as far as the control plane knows it, until these have
        /// clearly more requests in flight than those of other zones.
        linkerd OUTBOUND_BALANCER_PREFER_ZONE: Switch = default("false"), used, since("0.1");
        /// The part of a request by which it keeps its endpoint, as long as that is ready and has fewer than 8 requests in
        /// flight, or less than 1.25 times the average: `header:NAME` or `cookie:NAME`. Requests without it are balanced by
        /// load. Each request that has it looks at all ready endpoints.
        linkerd OUTBOUND_BALANCER_AFFINITY: AffinitySource = unset, used, since("0.1");
        /// The most HTTP/2 connections of a worker to an endpoint: another one is opened when the peer's limit of
        /// streams is reached, and when responses that nobody reads may hold the window of the connection.
        linkerd OUTBOUND_HTTP2_MAX_CONNECTIONS_PER_ENDPOINT: Positive = default("8"), used, unit("connections"),
            since("0.1");
        /// The percentile of the recent latencies of its route, up to the headers of responses, after which an idempotent request
        /// without a response is sent once more, to another endpoint if there is one; the first response counts. Each such
        /// request is taken from the retry budget: it is not sent where that is used up, nor where fewer than 3 of the recent
        /// requests took longer. Unset: no request is. At 95 a service gets up to 5 % more requests.
        linkerd OUTBOUND_HEDGE_PERCENTILE: Percentile = unset, used, since("0.1");
        /// The least time after which a request is sent once more, whatever the percentile is.
        linkerd OUTBOUND_HEDGE_MIN_DELAY: Duration = default("1ms"), used, since("0.1");
        /// The most bytes of a body that are kept so that a request lost with its connection can be sent again, or a
        /// slow one once more; 0 for none.
        linkerd OUTBOUND_REPLAY_MAX_BYTES: Count = default("65536"), used, unit("bytes"), since("0.1");
    }

    "HTTP/2" {
        /// The window of a stream with the application, peers and controllers, as a client.
        linkerd2 HTTP2_INITIAL_STREAM_WINDOW_SIZE: Window = default("65535"), used, unit("bytes"), since("0.1");
        /// The window of a connection with the application, peers and controllers, as a client. A connection ends when its unread
        /// DATA frames, each of fewer than 256 bytes counted for the missing ones, come to half of it; linkerd2-proxy has 1048576.
        linkerd2 HTTP2_INITIAL_CONNECTION_WINDOW_SIZE: Window = default("16777216"), used, unit("bytes"), since("0.1");
        /// Whether windows follow the measured bandwidth-delay product; overrides the fixed ones.
        linkerd2 INBOUND_SERVER_HTTP2_ADAPTIVE_FLOW_CONTROL: Bool = default("false"), used, since("0.1");
        /// The window of a stream. Only has an effect together with the one of the connection.
        linkerd2 INBOUND_SERVER_HTTP2_INITIAL_STREAM_WINDOW_SIZE: Window = default("65535"), used, unit("bytes"),
            since("0.1");
        /// The window of a connection. Only has an effect together with the one of a stream. A connection ends when its unread DATA
        /// frames, each of fewer than 256 bytes counted for the missing ones, come to half of it; linkerd2-proxy has 1048576.
        linkerd2 INBOUND_SERVER_HTTP2_INITIAL_CONNECTION_WINDOW_SIZE: Window = default("4194304"), used, unit("bytes"),
            since("0.1");
        /// The time between PINGs. Only has an effect together with the timeout.
        linkerd2 INBOUND_SERVER_HTTP2_KEEP_ALIVE_INTERVAL: Duration = unset, used, since("0.1");
        /// How long the answer to a PING may take. Only has an effect together with the interval.
        linkerd2 INBOUND_SERVER_HTTP2_KEEP_ALIVE_TIMEOUT: Duration = unset, used, since("0.1");
        /// SETTINGS_MAX_CONCURRENT_STREAMS. Answers that a client does not read are kept, 2 KB for each stream; linkerd2-proxy
        /// has no limit.
        linkerd2 INBOUND_SERVER_HTTP2_MAX_CONCURRENT_STREAMS: Number = default("10000"), used, unit("streams"), since("0.1");
        /// SETTINGS_MAX_FRAME_SIZE. 16384 without it.
        linkerd2 INBOUND_SERVER_HTTP2_MAX_FRAME_SIZE: FrameSize = unset, used, unit("bytes"), since("0.1");
        /// SETTINGS_MAX_HEADER_LIST_SIZE. 16384 without it. A larger head is answered 431; one of more than four times as many bytes
        /// ends the connection, with its other calls.
        linkerd2 INBOUND_SERVER_HTTP2_MAX_HEADER_LIST_SIZE: Number = unset, used, unit("bytes"), since("0.1");
        /// The most streams that a client may open and reset before the server has seen them. 20 without it. More, as of a client
        /// that cancels many calls in one write, end the connection with `ENHANCE_YOUR_CALM`.
        linkerd2 INBOUND_SERVER_HTTP2_MAX_PENDING_ACCEPT_RESET_STREAMS: Count = unset, used, unit("streams"),
            since("0.1");
        /// The most bytes that wait to be sent, for each stream. 409600 without it.
        linkerd2 INBOUND_SERVER_HTTP2_MAX_SEND_BUF_SIZE: SendBuffer = unset, used, unit("bytes"), since("0.1");
        /// Whether windows follow the measured bandwidth-delay product; overrides the fixed ones.
        linkerd2 OUTBOUND_SERVER_HTTP2_ADAPTIVE_FLOW_CONTROL: Bool = default("false"), used, since("0.1");
        /// The window of a stream. Only has an effect together with the one of the connection.
        linkerd2 OUTBOUND_SERVER_HTTP2_INITIAL_STREAM_WINDOW_SIZE: Window = default("65535"), used, unit("bytes"),
            since("0.1");
        /// The window of a connection. Only has an effect together with the one of a stream. A connection ends when its unread DATA
        /// frames, each of fewer than 256 bytes counted for the missing ones, come to half of it; linkerd2-proxy has 1048576.
        linkerd2 OUTBOUND_SERVER_HTTP2_INITIAL_CONNECTION_WINDOW_SIZE: Window = default("4194304"), used,
            unit("bytes"), since("0.1");
        /// The time between PINGs. Only has an effect together with the timeout.
        linkerd2 OUTBOUND_SERVER_HTTP2_KEEP_ALIVE_INTERVAL: Duration = unset, used, since("0.1");
        /// How long the answer to a PING may take. Only has an effect together with the interval.
        linkerd2 OUTBOUND_SERVER_HTTP2_KEEP_ALIVE_TIMEOUT: Duration = unset, used, since("0.1");
        /// SETTINGS_MAX_CONCURRENT_STREAMS. Answers that a client does not read are kept, 2 KB for each stream; linkerd2-proxy
        /// has no limit.
        linkerd2 OUTBOUND_SERVER_HTTP2_MAX_CONCURRENT_STREAMS: Number = default("10000"), used, unit("streams"), since("0.1");
        /// SETTINGS_MAX_FRAME_SIZE. 16384 without it.
        linkerd2 OUTBOUND_SERVER_HTTP2_MAX_FRAME_SIZE: FrameSize = unset, used, unit("bytes"), since("0.1");
        /// SETTINGS_MAX_HEADER_LIST_SIZE. 16384 without it. A larger head is answered 431; one of more than four times as many bytes
        /// ends the connection, with its other calls.
        linkerd2 OUTBOUND_SERVER_HTTP2_MAX_HEADER_LIST_SIZE: Number = unset, used, unit("bytes"), since("0.1");
        /// The most streams that a client may open and reset before the server has seen them. 20 without it. More, as of a client
        /// that cancels many calls in one write, end the connection with `ENHANCE_YOUR_CALM`.
        linkerd2 OUTBOUND_SERVER_HTTP2_MAX_PENDING_ACCEPT_RESET_STREAMS: Count = unset, used, unit("streams"),
            since("0.1");
        /// The most bytes that wait to be sent, for each stream. 409600 without it.
        linkerd2 OUTBOUND_SERVER_HTTP2_MAX_SEND_BUF_SIZE: SendBuffer = unset, used, unit("bytes"), since("0.1");
    }

    "Outbound" {
        /// Whether requests are routed by their `l5d-dst-override` header.
        linkerd2 INGRESS_MODE: Bool = default("false"), used, since("0.1");
        /// Whether responses come without informational headers such as `l5d-proxy-error`.
        linkerd2 OUTBOUND_DISABLE_INFORMATIONAL_HEADERS: Bool = derived("INGRESS_MODE"), used, since("0.1");
        /// Whether route metrics have the real host name in their `hostname` label.
        linkerd2 OUTBOUND_METRICS_HOSTNAME_LABELS: Bool = default("false"), used, since("0.1");
        /// How long unused discovery results are kept.
        linkerd2 OUTBOUND_DISCOVERY_IDLE_TIMEOUT: Duration = default("5s"), used, since("0.1");
        /// Whether the outbound listener also serves as an explicit proxy: it routes by the authority of a request and
        /// accepts CONNECT, so that nothing has to be redirected to it.
        linkerd OUTBOUND_EXPLICIT: Switch = default("false"), used, since("0.1");
        /// Whether outbound traffic may go to loopback addresses.
        linkerd OUTBOUND_ALLOW_LOOPBACK: Switch = default("false"), used, since("0.1");
        /// Whether traffic to destinations without a policy is forwarded, as linkerd2-proxy does it: to an address as
        /// it
        /// is, to a name by its profile. Otherwise it is refused (`unknown_destination`), and so it is with `run
        /// --mesh`
        /// unless this is set.
        linkerd OUTBOUND_ALLOW_UNKNOWN: Switch = default("true"), used, since("0.1");
    }

    "Inbound" {
        /// The addresses of this workload: inbound traffic for other ones is refused. Without it, none is refused.
        linkerd2 INBOUND_IPS: IpSet = unset, used, since("0.1");
        /// Ports whose policies are watched from the start and for ever.
        linkerd2 INBOUND_PORTS: PortSet = default(""), used, since("0.1");
        /// Ports that are opaque until the control plane says otherwise.
        linkerd2 INBOUND_PORTS_DISABLE_PROTOCOL_DETECTION: PortSet = default(""), used, since("0.1");
        /// The policy of ports without a policy from the control plane. `cluster-*` and `audit` need the networks of
        /// the
        /// cluster to be set.
        linkerd2 INBOUND_DEFAULT_POLICY: DefaultPolicy = default("all-unauthenticated"), used, since("0.1");
        /// Whether the policies of the control plane admit all clients on loopback, which in a pod are the pod's own. Where
        /// several workloads share a host, set it to 0.
        linkerd INBOUND_ADMIT_LOOPBACK: Switch = default("true"), used, since("0.1");
        /// Whether connections are closed that are not HTTP, on ports whose protocol is detected. TLS that this proxy does not
        /// terminate is closed, too.
        linkerd INBOUND_DETECTED_HTTP_ONLY: Switch = default("false"), used, since("0.1");
        /// The headers by which the application is told the address of its client: `off`, `forwarded` (RFC 7239),
        /// `x-forwarded-for` or `both`. Unless it is off, what a client without an identity of the mesh sends in either is
        /// removed, and the address is appended to what others send. Both are removed from trailers. Requests in a tunnel are
        /// treated alike.
        linkerd INBOUND_FORWARDED_HEADER: ForwardedHeader = default("off"), used, since("0.1");
        /// Ports of the application that speak the PROXY protocol: each connection to one begins with a header of its version 2,
        /// with the address of the client, the address that it dialled and, of a client of the mesh, its identity. Connections
        /// to these ports are always opaque, HTTP included; the control plane should know them as opaque, too.
        linkerd INBOUND_PROXY_PROTOCOL_PORTS: PortSet = default(""), used, since("0.1");
        /// How long unused discovery results are kept.
        linkerd2 INBOUND_DISCOVERY_IDLE_TIMEOUT: Duration = default("90s"), used, since("0.1");
        /// Names that a gateway may forward to.
        linkerd2 INBOUND_GATEWAY_SUFFIXES: Suffixes = default(""), used, since("0.1");
        /// Whether `request_total`, `response_total` and `response_latency_ms` have an `authority` label: the service that a request names, which clients choose. 100 of each route are told apart, further ones are `other`.
        linkerd2 INBOUND_METRICS_AUTHORITY_LABELS: AuthorityLabels = default(""), used, since("0.1");
        /// Set by some control planes, and read by no proxy.
        linkerd2 INBOUND_PORTS_REQUIRE_IDENTITY: Text = unset, ignored, since("0.1");
        /// Set by some control planes, and read by no proxy.
        linkerd2 INBOUND_PORTS_REQUIRE_TLS: Text = unset, ignored, since("0.1");
    }

    "Control plane" {
        /// The destination controller. On loopback (a loopback address, or `localhost.` with its dot) it is spoken to
        /// without TLS; elsewhere its name is needed.
        linkerd2 DESTINATION_SVC_ADDR: Authority = required, used, since("0.1");
        /// The identity and server name of the destination controller.
        linkerd2 DESTINATION_SVC_NAME: DnsName = unset, used, since("0.1");
        /// Sent verbatim to the destination controller.
        linkerd2 DESTINATION_CONTEXT: Text = default(""), used, since("0.1");
        /// Names whose profiles are looked up.
        linkerd2 DESTINATION_PROFILE_SUFFIXES: Suffixes = default("svc.cluster.local."), used, since("0.1");
        /// Addresses whose profiles are looked up.
        linkerd2 DESTINATION_PROFILE_NETWORKS: NetworkList = default(""), used, since("0.1");
        /// How long an inbound request waits for its profile before it goes without.
        linkerd2 DESTINATION_PROFILE_INITIAL_TIMEOUT: Duration = default("500ms"), used, since("0.1");
        /// The policy controller. On loopback (a loopback address, or `localhost.` with its dot) it is spoken to
        /// without TLS; elsewhere its name is needed.
        linkerd2 POLICY_SVC_ADDR: Authority = required, used, since("0.1");
        /// The identity and server name of the policy controller.
        linkerd2 POLICY_SVC_NAME: DnsName = unset, used, since("0.1");
        /// Sent verbatim to the policy controller, to identify the workload.
        linkerd2 POLICY_WORKLOAD: Text = required, used, since("0.1");
        /// The networks of the cluster, for default policies that depend on them.
        linkerd2 POLICY_CLUSTER_NETWORKS: NetworkList = default(""), used, since("0.1");
        /// How long the first message of a discovery stream may take. Streams of controllers on loopback have no limit.
        linkerd2 CONTROL_STREAM_INITIAL_TIMEOUT: OptionalDuration = unset, used, since("0.1");
        /// How long the next message of a discovery stream may take. Not less than the time for the first one.
        linkerd2 CONTROL_STREAM_IDLE_TIMEOUT: OptionalDuration = unset, used, since("0.1");
        /// How old a discovery stream may get before it is opened anew. Not less than the times for messages.
        linkerd2 CONTROL_STREAM_LIFETIME: OptionalDuration = unset, used, since("0.1");
        /// The most destinations known at a time.
        linkerd DISCOVERY_MAX_DESTINATIONS: Positive = default("10000"), used, unit("destinations"), since("0.1");
        /// The most endpoints of a destination.
        linkerd DISCOVERY_MAX_ENDPOINTS: Positive = default("100000"), used, unit("endpoints"), since("0.1");
    }

    "Identity" {
        /// Must not have a value: identity can't be disabled.
        linkerd2 IDENTITY_DISABLED: Empty = unset, used, since("0.1");
        /// The trusted certificates, in PEM.
        linkerd2 IDENTITY_TRUST_ANCHORS: NonEmpty = unset, used, since("0.1");
        /// A file of the trusted certificates, in PEM, in place of the variable above. It is read again when it changes and
        /// at each renewal of the certificate; a bad file leaves the last anchors in use.
        linkerd IDENTITY_TRUST_ANCHORS_FILE: NonEmpty = unset, used, since("0.1");
        /// The identity and the server name of this proxy.
        linkerd2 IDENTITY_LOCAL_NAME: LocalName = unset, used, since("0.1");
        /// The identity of this proxy, if it differs from its server name.
        linkerd2 IDENTITY_SERVER_ID: Identity = unset, used, since("0.1");
        /// The server name of this proxy, if it differs from its identity.
        linkerd2 IDENTITY_SERVER_NAME: DnsName = unset, used, since("0.1");
        /// The directory of `key.p8` and `csr.der`. If it has neither, the proxy makes a key of its own.
        linkerd2 IDENTITY_DIR: Text = unset, used, since("0.1");
        /// The file of the token with which the proxy authenticates itself.
        linkerd2 IDENTITY_TOKEN_FILE: Text = unset, used, since("0.1");
        /// The identity controller.
        linkerd2 IDENTITY_SVC_ADDR: Authority = unset, used, since("0.1");
        /// The identity and server name of the identity controller.
        linkerd2 IDENTITY_SVC_NAME: DnsName = unset, used, since("0.1");
        /// A certificate is renewed after this long at the earliest.
        linkerd2 IDENTITY_MIN_REFRESH: Duration = default("10s"), used, since("0.1");
        /// A certificate is renewed after this long at the latest.
        linkerd2 IDENTITY_MAX_REFRESH: Duration = default("24h"), used, since("0.1");
        /// The Unix socket of SPIRE's workload API, such as `unix:///run/spire/agent.sock`. It issues key, certificate and
        /// trust bundle in place of an identity controller, for the SPIFFE ID of this proxy. Trust anchors that are set
        /// besides are trusted, too.
        linkerd2 IDENTITY_SPIRE_WORKLOAD_API_ADDRESS: Text = unset, used, since("0.1");
        /// The old name of the one above.
        linkerd2 IDENTITY_SPIRE_SOCKET: Text = unset, used, since("0.1");
        /// The first pause before SPIRE is asked again. The name really has the prefix twice.
        linkerd2 LINKERD2_PROXY_IDENTITY_SPIRE_EXP_BACKOFF_MIN: Duration = default("100ms"), used, since("0.1");
        /// The longest pause before SPIRE is asked again. The name really has the prefix twice.
        linkerd2 LINKERD2_PROXY_IDENTITY_SPIRE_EXP_BACKOFF_MAX: Duration = default("1s"), used, since("0.1");
        /// The most that is added to a pause at random, as a share of it. The name really has the prefix twice.
        linkerd2 LINKERD2_PROXY_IDENTITY_SPIRE_EXP_BACKOFF_JITTER: Float = default("0.1"), used, since("0.1");
        /// The corrected name of the one with the prefix twice, which wins if both are set.
        linkerd2 IDENTITY_SPIRE_EXP_BACKOFF_MIN: Duration = unset, used, since("0.1");
        /// The corrected name of the one with the prefix twice, which wins if both are set.
        linkerd2 IDENTITY_SPIRE_EXP_BACKOFF_MAX: Duration = unset, used, since("0.1");
        /// The corrected name of the one with the prefix twice, which wins if both are set.
        linkerd2 IDENTITY_SPIRE_EXP_BACKOFF_JITTER: Float = unset, used, since("0.1");
    }

    "Tap and tracing" {
        /// The identity of the only client that may use tap. Without it there is no tap server.
        linkerd2 TAP_SVC_NAME: Identity = unset, used, since("0.1");
        /// Set by some older injectors: any value but an empty one turns the tap server off, whatever `TAP_SVC_NAME` is.
        linkerd2 TAP_DISABLED: Text = unset, used, since("0.1");
        /// Whether taps that ask for headers see the values of `authorization`, `cookie` and other credentials. Otherwise they
        /// see `[redacted]`.
        linkerd TAP_SECRET_HEADERS: Switch = default("false"), used, since("0.1");
        /// The collector that spans are sent to, over OTLP and gRPC. Without it, and without `LINKERD_PROXY_TRACE_OUTPUT`, there is
        /// no tracing.
        linkerd2 TRACE_COLLECTOR_SVC_ADDR: Authority = unset, used, since("0.1");
        /// The identity and server name of the collector. One on loopback needs none.
        linkerd2 TRACE_COLLECTOR_SVC_NAME: DnsName = unset, used, since("0.1");
        /// The share of requests without a trace that begin one, and of those whose sender leaves the decision to others. Other
        /// requests follow their sender.
        linkerd TRACE_SAMPLE: Share = default("0"), used, since("0.1");
        /// Where finished traces are printed for a person: `stdout`, `stderr`, or a file, which is appended to.
        linkerd TRACE_OUTPUT: AccessLogOutput = unset, used, since("0.1");
        /// The resource attribute `service.name`. Others override it.
        linkerd2 TRACE_SERVICE_NAME: Text = unset, used, since("0.1");
        /// A file of resource attributes, one `key="value"` a line, read when the proxy starts.
        linkerd2 TRACE_ATTRIBUTES_PATH: Text = unset, used, since("0.1");
        /// Resource attributes, one `key=value` a line. They override the file's.
        linkerd2 TRACE_EXTRA_ATTRIBUTES: Text = unset, used, since("0.1");
        /// Set by some control planes, and read by no proxy: the protocol is OTLP.
        linkerd2 TRACE_PROTOCOL: Text = unset, ignored, since("0.1");
        /// Set by some control planes, and read by no proxy.
        linkerd2 TRACE_ANNOTATIONS_PATH: Text = unset, ignored, since("0.1");
        /// Resource attributes, `key=value` separated by line breaks or commas. They override all others.
        bare OTEL_RESOURCE_ATTRIBUTES: Text = unset, used, since("0.1");
        /// The resource attribute `host.name`.
        bare HOSTNAME: Text = unset, used, since("0.1");
    }

    "Build" {
        /// The version that the proxy is built as. Read when it is built, not when it runs.
        linkerd2 VERSION: Text = unset, ignored, since("0.1");
        /// The builder of the proxy. Read when it is built, not when it runs.
        linkerd2 VENDOR: Text = unset, ignored, since("0.1");
    }
}
