//! The two directions of traffic. Common settings are read by the same functions, given the names.

use crate::config::grammar::kinds::{
    Bool, Count, Duration, Float, FrameSize, Number, SendBuffer, Window,
};
use crate::config::reader::Reader;
use crate::config::variables::*;
use crate::config::{BalancerConfig, ConnectConfig, HedgeSettings, InboundConfig, OutboundConfig};
use linkerd_balance::{Preferences, SlowStart, ZonePreference};
use linkerd_proxy_core::Backoff;
use linkerd_proxy_core::http::{
    FlowControl, Http2Settings, KeepAlive, PoolSettings, QueueSettings,
};
use linkerd_proxy_core::transport::SocketOptions;
use std::net::SocketAddr;

/// Traffic from the application.
pub(super) fn outbound(r: &mut Reader<'_>, http2_client: Http2Settings) -> OutboundConfig {
    let ingress_mode = r.value(&INGRESS_MODE);
    OutboundConfig {
        listen: outbound_listen(r),
        backlog: r.given(&OUTBOUND_TCP_LISTEN_BACKLOG),
        accept: local_socket(r, &OUTBOUND_ACCEPT_KEEPALIVE, &OUTBOUND_ACCEPT_USER_TIMEOUT),
        connect: ConnectConfig {
            timeout: r.value(&OUTBOUND_CONNECT_TIMEOUT),
            backoff: backoff(r, &OUTBOUND_BACKOFF),
            socket: remote_socket(
                r,
                &OUTBOUND_CONNECT_KEEPALIVE,
                &OUTBOUND_CONNECT_USER_TIMEOUT,
            ),
        },
        detect_timeout: r.value(&OUTBOUND_DETECT_TIMEOUT),
        discovery_idle: r.value(&OUTBOUND_DISCOVERY_IDLE_TIMEOUT),
        tcp_queue: QueueSettings {
            capacity: r.value(&OUTBOUND_TCP_QUEUE_CAPACITY),
            failfast: r.value(&OUTBOUND_TCP_FAILFAST_TIMEOUT),
        },
        http_queue: QueueSettings {
            capacity: r.value(&OUTBOUND_HTTP_QUEUE_CAPACITY),
            failfast: r.value(&OUTBOUND_HTTP_FAILFAST_TIMEOUT),
        },
        max_in_flight: r.value(&OUTBOUND_MAX_IN_FLIGHT),
        pool: PoolSettings {
            max_idle: r.value(&OUTBOUND_MAX_IDLE_CONNS_PER_ENDPOINT),
            idle_timeout: r.value(&OUTBOUND_HTTP1_CONNECTION_POOL_IDLE_TIMEOUT),
        },
        http2_server: http2_server(r, &OUTBOUND_HTTP2),
        http2_client,
        balancer: balancer(r),
        http2_max_connections: r.value(&OUTBOUND_HTTP2_MAX_CONNECTIONS_PER_ENDPOINT),
        replay_max_bytes: r.value(&OUTBOUND_REPLAY_MAX_BYTES),
        hedge: hedge(r),
        explicit: r.value(&OUTBOUND_EXPLICIT),
        allow_loopback: r.value(&OUTBOUND_ALLOW_LOOPBACK),
        allow_unknown: r.value(&OUTBOUND_ALLOW_UNKNOWN),
        ingress_mode,
        emit_headers: !headers_disabled(r, ingress_mode),
        hostname_labels: r.value(&OUTBOUND_METRICS_HOSTNAME_LABELS),
    }
}

/// Balancers of requests.
fn balancer(r: &mut Reader<'_>) -> BalancerConfig {
    let slow_start = r.value(&OUTBOUND_BALANCER_SLOW_START);
    BalancerConfig {
        load: r.value(&OUTBOUND_BALANCER_LOAD),
        preferences: Preferences {
            affinity: r.given(&OUTBOUND_BALANCER_AFFINITY),
            zone: r
                .value(&OUTBOUND_BALANCER_PREFER_ZONE)
                .then_some(ZonePreference),
            slow_start: (!slow_start.is_zero()).then(|| SlowStart::new(slow_start)),
        },
    }
}

/// Hedging of requests.
fn hedge(r: &mut Reader<'_>) -> Option<HedgeSettings> {
    let min_delay = r.value(&OUTBOUND_HEDGE_MIN_DELAY);
    let max_bytes = r.value(&OUTBOUND_REPLAY_MAX_BYTES);
    Some(HedgeSettings {
        percentile: r.given(&OUTBOUND_HEDGE_PERCENTILE)?,
        min_delay,
        max_bytes,
    })
}

/// Traffic to the application.
pub(super) fn inbound(r: &mut Reader<'_>, http2_client: Http2Settings) -> InboundConfig {
    let ips = r.given(&INBOUND_IPS).unwrap_or_default();
    let listen = r.value(&INBOUND_LISTEN_ADDR);
    let listen = r.value(&INBOUND_ENABLED).then_some(listen);
    if ips.is_empty() && listen.is_some() {
        r.notes.push(format!(
            "{} is not set: inbound traffic may be for any address",
            INBOUND_IPS.name()
        ));
    }
    InboundConfig {
        listen,
        backlog: r.given(&INBOUND_TCP_LISTEN_BACKLOG),
        accept: remote_socket(r, &INBOUND_ACCEPT_KEEPALIVE, &INBOUND_ACCEPT_USER_TIMEOUT),
        connect: ConnectConfig {
            timeout: r.value(&INBOUND_CONNECT_TIMEOUT),
            backoff: backoff(r, &INBOUND_BACKOFF),
            socket: local_socket(r, &INBOUND_CONNECT_KEEPALIVE, &INBOUND_CONNECT_USER_TIMEOUT),
        },
        detect_timeout: r.value(&INBOUND_DETECT_TIMEOUT),
        discovery_idle: r.value(&INBOUND_DISCOVERY_IDLE_TIMEOUT),
        http_queue: QueueSettings {
            capacity: r.value(&INBOUND_HTTP_QUEUE_CAPACITY),
            failfast: r.value(&INBOUND_HTTP_FAILFAST_TIMEOUT),
        },
        max_in_flight: r.value(&INBOUND_MAX_IN_FLIGHT),
        pool: PoolSettings {
            max_idle: inbound_max_idle(r),
            idle_timeout: r.value(&INBOUND_HTTP1_CONNECTION_POOL_IDLE_TIMEOUT),
        },
        http2_server: http2_server(r, &INBOUND_HTTP2),
        http2_client,
        ips,
        ports: r.value(&INBOUND_PORTS),
        opaque_ports: r.value(&INBOUND_PORTS_DISABLE_PROTOCOL_DETECTION),
        default_policy: r.value(&INBOUND_DEFAULT_POLICY),
        admit_loopback: r.value(&INBOUND_ADMIT_LOOPBACK),
        detected_http_only: r.value(&INBOUND_DETECTED_HTTP_ONLY),
        forwarded_header: r.value(&INBOUND_FORWARDED_HEADER),
        proxy_protocol_ports: r.value(&INBOUND_PROXY_PROTOCOL_PORTS),
        gateway_suffixes: r.value(&INBOUND_GATEWAY_SUFFIXES),
        profile_timeout: r.value(&DESTINATION_PROFILE_INITIAL_TIMEOUT),
        authority_labels: r.value(&INBOUND_METRICS_AUTHORITY_LABELS),
    }
}

/// HTTP/2 as a client: only the windows are configurable.
pub(super) fn http2_client(r: &mut Reader<'_>) -> Http2Settings {
    let flow_control = FlowControl::Fixed {
        stream: r.value(&HTTP2_INITIAL_STREAM_WINDOW_SIZE),
        connection: r.value(&HTTP2_INITIAL_CONNECTION_WINDOW_SIZE),
    };
    Http2Settings {
        flow_control: Some(flow_control),
        ..Http2Settings::default()
    }
}

/// The list of addresses, else the single one. With a valid list, an invalid single one is no error.
fn outbound_listen(r: &mut Reader<'_>) -> Vec<SocketAddr> {
    match r.given(&OUTBOUND_LISTEN_ADDRS) {
        Some(addrs) => {
            if r.lenient(&OUTBOUND_LISTEN_ADDR)
                .is_some_and(|addr| !addrs.contains(&addr))
            {
                let (list, single) = (OUTBOUND_LISTEN_ADDRS.name(), OUTBOUND_LISTEN_ADDR.name());
                r.skip(
                    single,
                    format!("{single} has no effect, since {list} is set and doesn't contain it"),
                );
            }
            // Unless it is set, the single one is shown as derived from the list.
            if let Some(first) = addrs.first() {
                r.derive(&OUTBOUND_LISTEN_ADDR, first);
            }
            addrs
        }
        None => {
            let addr = r.value(&OUTBOUND_LISTEN_ADDR);
            r.derive(&OUTBOUND_LISTEN_ADDRS, addr);
            vec![addr]
        }
    }
}

fn headers_disabled(r: &mut Reader<'_>, ingress_mode: bool) -> bool {
    r.given(&OUTBOUND_DISABLE_INFORMATIONAL_HEADERS)
        .unwrap_or_else(|| {
            r.derive(&OUTBOUND_DISABLE_INFORMATIONAL_HEADERS, ingress_mode);
            ingress_mode
        })
}

/// The variable has two names: the odd one, which charts may have set for years, and the expected one.
fn inbound_max_idle(r: &mut Reader<'_>) -> usize {
    let (odd, expected) = (
        &MAX_IDLE_CONNS_PER_ENDPOINT,
        &INBOUND_MAX_IDLE_CONNS_PER_ENDPOINT,
    );
    match (r.given(odd), r.given(expected)) {
        (Some(max), None) => {
            r.derive(expected, max);
            max
        }
        (None, Some(max)) => {
            r.derive(odd, max);
            max
        }
        (Some(max), Some(other)) => {
            if max != other {
                r.skip(
                    expected.name(),
                    format!(
                        "{} has no effect, since {} is set",
                        expected.name(),
                        odd.name()
                    ),
                );
                r.derive(expected, max);
            }
            max
        }
        (None, None) => {
            r.derive(expected, odd.default());
            odd.default()
        }
    }
}

/// Sockets of connections within the pod.
fn local_socket(
    r: &mut Reader<'_>,
    keepalive: &OptionalKey<Duration>,
    user_timeout: &OptionalKey<Duration>,
) -> SocketOptions {
    SocketOptions {
        keepalive: r.given(keepalive),
        user_timeout: r.given(user_timeout),
    }
}

/// Sockets of connections with other nodes, which may vanish.
fn remote_socket(
    r: &mut Reader<'_>,
    keepalive: &DefaultedKey<Duration>,
    user_timeout: &DefaultedKey<Duration>,
) -> SocketOptions {
    SocketOptions {
        keepalive: Some(r.value(keepalive)),
        user_timeout: Some(r.value(user_timeout)),
    }
}

/// The variables of a backoff.
struct BackoffKeys {
    min: DefaultedKey<Duration>,
    max: DefaultedKey<Duration>,
    jitter: DefaultedKey<Float>,
}

/// A backoff. As soon as any part of it is set, minimum and maximum must be, and the jitter is 0 unless set.
fn backoff(r: &mut Reader<'_>, keys: &BackoffKeys) -> Backoff {
    let BackoffKeys { min, max, jitter } = keys;
    let default = Backoff::new(min.default(), max.default(), jitter.default())
        .expect("the defaults of a backoff fit together: a test loads them all");
    let given = (r.given(min), r.given(max), r.given(jitter));
    if !r.is_set(min) && !r.is_set(max) && !r.is_set(jitter) {
        return default;
    }
    if !r.is_set(min) || !r.is_set(max) {
        let problem = format!("{} and {} must be set together", min.name(), max.name());
        let fix = format!(
            "the defaults are {:?} and {:?}",
            min.default(),
            max.default()
        );
        r.inconsistent(problem, Some(fix));
        return default;
    }
    if !r.is_set(jitter) {
        r.derive(jitter, 0);
    }
    let (Some(least), Some(most), share) = given else {
        return default;
    };
    Backoff::new(least, most, share.unwrap_or(0.0)).unwrap_or_else(|error| {
        let names = [min.name(), max.name(), jitter.name()].join(", ");
        r.inconsistent(format!("{names} don't make a backoff: {error}"), None);
        default
    })
}

/// The variables of a server's HTTP/2 settings.
struct Http2Keys {
    adaptive: DefaultedKey<Bool>,
    stream_window: DefaultedKey<Window>,
    connection_window: DefaultedKey<Window>,
    interval: OptionalKey<Duration>,
    timeout: OptionalKey<Duration>,
    max_streams: DefaultedKey<Number>,
    max_frame_size: OptionalKey<FrameSize>,
    max_header_list_size: OptionalKey<Number>,
    max_pending_resets: OptionalKey<Count>,
    max_send_buf_size: OptionalKey<SendBuffer>,
}

fn http2_server(r: &mut Reader<'_>, keys: &Http2Keys) -> Http2Settings {
    let stream = r.given(&keys.stream_window);
    let connection = r.given(&keys.connection_window);
    let windows = both(
        r,
        &keys.stream_window,
        stream,
        &keys.connection_window,
        connection,
    );
    let (stream, connection) = windows.unwrap_or_else(|| {
        (
            keys.stream_window.default(),
            keys.connection_window.default(),
        )
    });
    let flow_control = match r.value(&keys.adaptive) {
        true => FlowControl::Adaptive,
        false => FlowControl::Fixed { stream, connection },
    };
    let (interval, timeout) = (r.given(&keys.interval), r.given(&keys.timeout));
    let keep_alive =
        both(r, &keys.interval, interval, &keys.timeout, timeout).map(|(interval, timeout)| {
            KeepAlive {
                interval,
                timeout,
                while_idle: true,
            }
        });
    Http2Settings {
        flow_control: Some(flow_control),
        keep_alive,
        max_concurrent_streams: Some(r.value(&keys.max_streams)),
        max_frame_size: r.given(&keys.max_frame_size),
        max_header_list_size: r.given(&keys.max_header_list_size),
        max_pending_accept_reset_streams: r.given(&keys.max_pending_resets),
        max_concurrent_reset_streams: None,
        max_send_buf_size: r.given(&keys.max_send_buf_size),
    }
}

/// Two values that only have an effect together. One alone causes a warning.
fn both<G, H, A, B, const D: bool>(
    r: &mut Reader<'_>,
    key: &VariableKey<G, D>,
    value: Option<A>,
    other: &VariableKey<H, D>,
    other_value: Option<B>,
) -> Option<(A, B)>
where
    G: crate::config::grammar::Grammar,
    H: crate::config::grammar::Grammar,
{
    let alone = match (r.is_set(key), r.is_set(other)) {
        (true, false) => Some((key.name(), other.name())),
        (false, true) => Some((other.name(), key.name())),
        _ => None,
    };
    if let Some((set, missing)) = alone {
        r.skip(
            set,
            format!("{set} has no effect unless {missing} is set, too"),
        );
    }
    value.zip(other_value)
}

const INBOUND_BACKOFF: BackoffKeys = BackoffKeys {
    min: INBOUND_CONNECT_EXP_BACKOFF_MIN,
    max: INBOUND_CONNECT_EXP_BACKOFF_MAX,
    jitter: INBOUND_CONNECT_EXP_BACKOFF_JITTER,
};

const OUTBOUND_BACKOFF: BackoffKeys = BackoffKeys {
    min: OUTBOUND_CONNECT_EXP_BACKOFF_MIN,
    max: OUTBOUND_CONNECT_EXP_BACKOFF_MAX,
    jitter: OUTBOUND_CONNECT_EXP_BACKOFF_JITTER,
};

const INBOUND_HTTP2: Http2Keys = Http2Keys {
    adaptive: INBOUND_SERVER_HTTP2_ADAPTIVE_FLOW_CONTROL,
    stream_window: INBOUND_SERVER_HTTP2_INITIAL_STREAM_WINDOW_SIZE,
    connection_window: INBOUND_SERVER_HTTP2_INITIAL_CONNECTION_WINDOW_SIZE,
    interval: INBOUND_SERVER_HTTP2_KEEP_ALIVE_INTERVAL,
    timeout: INBOUND_SERVER_HTTP2_KEEP_ALIVE_TIMEOUT,
    max_streams: INBOUND_SERVER_HTTP2_MAX_CONCURRENT_STREAMS,
    max_frame_size: INBOUND_SERVER_HTTP2_MAX_FRAME_SIZE,
    max_header_list_size: INBOUND_SERVER_HTTP2_MAX_HEADER_LIST_SIZE,
    max_pending_resets: INBOUND_SERVER_HTTP2_MAX_PENDING_ACCEPT_RESET_STREAMS,
    max_send_buf_size: INBOUND_SERVER_HTTP2_MAX_SEND_BUF_SIZE,
};

const OUTBOUND_HTTP2: Http2Keys = Http2Keys {
    adaptive: OUTBOUND_SERVER_HTTP2_ADAPTIVE_FLOW_CONTROL,
    stream_window: OUTBOUND_SERVER_HTTP2_INITIAL_STREAM_WINDOW_SIZE,
    connection_window: OUTBOUND_SERVER_HTTP2_INITIAL_CONNECTION_WINDOW_SIZE,
    interval: OUTBOUND_SERVER_HTTP2_KEEP_ALIVE_INTERVAL,
    timeout: OUTBOUND_SERVER_HTTP2_KEEP_ALIVE_TIMEOUT,
    max_streams: OUTBOUND_SERVER_HTTP2_MAX_CONCURRENT_STREAMS,
    max_frame_size: OUTBOUND_SERVER_HTTP2_MAX_FRAME_SIZE,
    max_header_list_size: OUTBOUND_SERVER_HTTP2_MAX_HEADER_LIST_SIZE,
    max_pending_resets: OUTBOUND_SERVER_HTTP2_MAX_PENDING_ACCEPT_RESET_STREAMS,
    max_send_buf_size: OUTBOUND_SERVER_HTTP2_MAX_SEND_BUF_SIZE,
};
