//! Each variable reaches its own field, and no other one.

use super::*;
use linkerd_balance::{Affinity, LoadKind, SlowStart, ZonePreference};
use linkerd_proxy_core::http::FlowControl;
use std::time::Duration;

/// A variable, a value other than its default, and a check of its field.
type Case = (&'static str, &'static str, fn(&Config) -> bool);

const S: fn(u64) -> Duration = Duration::from_secs;

const CASES: &[Case] = &[
    ("OUTBOUND_LISTEN_ADDR", "127.0.0.1:1", |c| {
        c.outbound.listen == ["127.0.0.1:1".parse().unwrap()]
    }),
    ("OUTBOUND_LISTEN_ADDRS", "127.0.0.1:1,[::1]:1", |c| {
        c.outbound.listen.len() == 2
    }),
    ("OUTBOUND_TCP_LISTEN_BACKLOG", "77", |c| {
        c.outbound.backlog == Some(77)
    }),
    ("OUTBOUND_ACCEPT_KEEPALIVE", "77s", |c| {
        c.outbound.accept.keepalive == Some(S(77))
    }),
    ("OUTBOUND_ACCEPT_USER_TIMEOUT", "77s", |c| {
        c.outbound.accept.user_timeout == Some(S(77))
    }),
    ("OUTBOUND_CONNECT_KEEPALIVE", "77s", |c| {
        c.outbound.connect.socket.keepalive == Some(S(77))
    }),
    ("OUTBOUND_CONNECT_USER_TIMEOUT", "77s", |c| {
        c.outbound.connect.socket.user_timeout == Some(S(77))
    }),
    ("OUTBOUND_CONNECT_TIMEOUT", "77s", |c| {
        c.outbound.connect.timeout == S(77)
    }),
    ("OUTBOUND_DETECT_TIMEOUT", "77s", |c| {
        c.outbound.detect_timeout == S(77)
    }),
    ("OUTBOUND_DISCOVERY_IDLE_TIMEOUT", "77s", |c| {
        c.outbound.discovery_idle == S(77)
    }),
    ("OUTBOUND_TCP_QUEUE_CAPACITY", "77", |c| {
        c.outbound.tcp_queue.capacity == 77
    }),
    ("OUTBOUND_TCP_FAILFAST_TIMEOUT", "77s", |c| {
        c.outbound.tcp_queue.failfast == S(77)
    }),
    ("OUTBOUND_HTTP_QUEUE_CAPACITY", "77", |c| {
        c.outbound.http_queue.capacity == 77
    }),
    ("OUTBOUND_HTTP_FAILFAST_TIMEOUT", "77s", |c| {
        c.outbound.http_queue.failfast == S(77)
    }),
    ("OUTBOUND_MAX_IN_FLIGHT", "77", |c| {
        c.outbound.max_in_flight == 77
    }),
    ("OUTBOUND_MAX_IDLE_CONNS_PER_ENDPOINT", "77", |c| {
        c.outbound.pool.max_idle == 77
    }),
    ("OUTBOUND_HTTP1_CONNECTION_POOL_IDLE_TIMEOUT", "77s", |c| {
        c.outbound.pool.idle_timeout == S(77)
    }),
    (
        "LINKERD_PROXY_OUTBOUND_BALANCER_LOAD",
        "least-pending",
        |c| c.outbound.balancer.load == LoadKind::LeastPending,
    ),
    ("LINKERD_PROXY_OUTBOUND_BALANCER_SLOW_START", "77s", |c| {
        c.outbound.balancer.preferences.slow_start == Some(SlowStart::new(S(77)))
    }),
    ("LINKERD_PROXY_OUTBOUND_BALANCER_PREFER_ZONE", "1", |c| {
        c.outbound.balancer.preferences.zone == Some(ZonePreference)
    }),
    (
        "LINKERD_PROXY_OUTBOUND_BALANCER_AFFINITY",
        "cookie:session",
        |c| {
            let cookie = Affinity::Cookie("session".to_owned());
            c.outbound.balancer.preferences.affinity == Some(cookie)
        },
    ),
    (
        "LINKERD_PROXY_OUTBOUND_HTTP2_MAX_CONNECTIONS_PER_ENDPOINT",
        "77",
        |c| c.outbound.http2_max_connections == 77,
    ),
    ("LINKERD_PROXY_OUTBOUND_REPLAY_MAX_BYTES", "77", |c| {
        c.outbound.replay_max_bytes == 77
    }),
    ("LINKERD_PROXY_OUTBOUND_EXPLICIT", "1", |c| {
        c.outbound.explicit
    }),
    ("LINKERD_PROXY_OUTBOUND_ALLOW_LOOPBACK", "1", |c| {
        c.outbound.allow_loopback
    }),
    ("LINKERD_PROXY_OUTBOUND_ALLOW_UNKNOWN", "0", |c| {
        !c.outbound.allow_unknown
    }),
    ("OUTBOUND_DISABLE_INFORMATIONAL_HEADERS", "true", |c| {
        !c.outbound.emit_headers
    }),
    ("OUTBOUND_METRICS_HOSTNAME_LABELS", "true", |c| {
        c.outbound.hostname_labels
    }),
    ("OUTBOUND_SERVER_HTTP2_ADAPTIVE_FLOW_CONTROL", "true", |c| {
        c.outbound.http2_server.flow_control == Some(FlowControl::Adaptive)
    }),
    ("OUTBOUND_SERVER_HTTP2_MAX_CONCURRENT_STREAMS", "77", |c| {
        c.outbound.http2_server.max_concurrent_streams == Some(77)
    }),
    ("OUTBOUND_SERVER_HTTP2_MAX_FRAME_SIZE", "20000", |c| {
        c.outbound.http2_server.max_frame_size == Some(20_000)
    }),
    ("OUTBOUND_SERVER_HTTP2_MAX_HEADER_LIST_SIZE", "77", |c| {
        c.outbound.http2_server.max_header_list_size == Some(77)
    }),
    (
        "OUTBOUND_SERVER_HTTP2_MAX_PENDING_ACCEPT_RESET_STREAMS",
        "77",
        |c| c.outbound.http2_server.max_pending_accept_reset_streams == Some(77),
    ),
    ("OUTBOUND_SERVER_HTTP2_MAX_SEND_BUF_SIZE", "77", |c| {
        c.outbound.http2_server.max_send_buf_size == Some(77)
    }),
    ("INBOUND_LISTEN_ADDR", "127.0.0.1:1", |c| {
        c.inbound.listen == Some("127.0.0.1:1".parse().unwrap())
    }),
    ("LINKERD_PROXY_INBOUND_DETECTED_HTTP_ONLY", "1", |c| {
        c.inbound.detected_http_only
    }),
    ("LINKERD_PROXY_INBOUND_FORWARDED_HEADER", "both", |c| {
        c.inbound.forwarded_header == crate::config::ForwardedHeader::Both
    }),
    ("LINKERD_PROXY_INBOUND_PROXY_PROTOCOL_PORTS", "77", |c| {
        c.inbound.proxy_protocol_ports == [77].into()
    }),
    ("LINKERD_PROXY_INBOUND_ADMIT_LOOPBACK", "0", |c| {
        !c.inbound.admit_loopback
    }),
    ("LINKERD_PROXY_INBOUND_ENABLED", "0", |c| {
        c.inbound.listen.is_none()
    }),
    ("INBOUND_TCP_LISTEN_BACKLOG", "77", |c| {
        c.inbound.backlog == Some(77)
    }),
    ("INBOUND_ACCEPT_KEEPALIVE", "77s", |c| {
        c.inbound.accept.keepalive == Some(S(77))
    }),
    ("INBOUND_ACCEPT_USER_TIMEOUT", "77s", |c| {
        c.inbound.accept.user_timeout == Some(S(77))
    }),
    ("INBOUND_CONNECT_KEEPALIVE", "77s", |c| {
        c.inbound.connect.socket.keepalive == Some(S(77))
    }),
    ("INBOUND_CONNECT_USER_TIMEOUT", "77s", |c| {
        c.inbound.connect.socket.user_timeout == Some(S(77))
    }),
    ("INBOUND_CONNECT_TIMEOUT", "77s", |c| {
        c.inbound.connect.timeout == S(77)
    }),
    ("INBOUND_DETECT_TIMEOUT", "77s", |c| {
        c.inbound.detect_timeout == S(77)
    }),
    ("INBOUND_DISCOVERY_IDLE_TIMEOUT", "77s", |c| {
        c.inbound.discovery_idle == S(77)
    }),
    ("INBOUND_HTTP_QUEUE_CAPACITY", "77", |c| {
        c.inbound.http_queue.capacity == 77
    }),
    ("INBOUND_HTTP_FAILFAST_TIMEOUT", "77s", |c| {
        c.inbound.http_queue.failfast == S(77)
    }),
    ("INBOUND_MAX_IN_FLIGHT", "77", |c| {
        c.inbound.max_in_flight == 77
    }),
    ("MAX_IDLE_CONNS_PER_ENDPOINT", "77", |c| {
        c.inbound.pool.max_idle == 77
    }),
    ("INBOUND_MAX_IDLE_CONNS_PER_ENDPOINT", "77", |c| {
        c.inbound.pool.max_idle == 77
    }),
    ("INBOUND_HTTP1_CONNECTION_POOL_IDLE_TIMEOUT", "77s", |c| {
        c.inbound.pool.idle_timeout == S(77)
    }),
    ("INBOUND_SERVER_HTTP2_ADAPTIVE_FLOW_CONTROL", "true", |c| {
        c.inbound.http2_server.flow_control == Some(FlowControl::Adaptive)
    }),
    ("INBOUND_SERVER_HTTP2_MAX_CONCURRENT_STREAMS", "77", |c| {
        c.inbound.http2_server.max_concurrent_streams == Some(77)
    }),
    ("INBOUND_SERVER_HTTP2_MAX_FRAME_SIZE", "20000", |c| {
        c.inbound.http2_server.max_frame_size == Some(20_000)
    }),
    ("INBOUND_SERVER_HTTP2_MAX_HEADER_LIST_SIZE", "77", |c| {
        c.inbound.http2_server.max_header_list_size == Some(77)
    }),
    (
        "INBOUND_SERVER_HTTP2_MAX_PENDING_ACCEPT_RESET_STREAMS",
        "77",
        |c| c.inbound.http2_server.max_pending_accept_reset_streams == Some(77),
    ),
    ("INBOUND_SERVER_HTTP2_MAX_SEND_BUF_SIZE", "77", |c| {
        c.inbound.http2_server.max_send_buf_size == Some(77)
    }),
    ("INBOUND_IPS", "10.0.0.7", |c| {
        c.inbound.ips == ["10.0.0.7".parse().unwrap()].into()
    }),
    ("INBOUND_PORTS", "77", |c| c.inbound.ports == [77].into()),
    ("INBOUND_PORTS_DISABLE_PROTOCOL_DETECTION", "77", |c| {
        c.inbound.opaque_ports == [77].into()
    }),
    ("INBOUND_DEFAULT_POLICY", "deny", |c| {
        c.inbound.default_policy == DefaultPolicy::Deny
    }),
    ("INBOUND_GATEWAY_SUFFIXES", "a.b", |c| {
        c.inbound.gateway_suffixes.matches("x.a.b")
    }),
    ("DESTINATION_PROFILE_INITIAL_TIMEOUT", "77s", |c| {
        c.inbound.profile_timeout == S(77)
    }),
    ("INBOUND_METRICS_AUTHORITY_LABELS", "unsafe", |c| {
        c.inbound.authority_labels
    }),
    ("ADMIN_LISTEN_ADDR", "127.0.0.1:1", |c| {
        c.admin.listen == "127.0.0.1:1".parse().unwrap()
    }),
    ("METRICS_RETAIN_IDLE", "77s", |c| {
        c.admin.metrics_retain_idle == S(77)
    }),
    ("LINKERD_PROXY_METRICS_NATIVE_HISTOGRAMS", "true", |c| {
        c.admin.native_histograms
    }),
    ("SHUTDOWN_ENDPOINT_ENABLED", "true", |c| {
        c.admin.shutdown_enabled
    }),
    ("LINKERD_PROXY_TAP_SECRET_HEADERS", "1", |c| {
        c.tap.shows_secrets
    }),
    ("LINKERD_PROXY_ADMIN_CONSOLE", "all", |c| {
        c.admin.console == crate::config::ConsoleAccess::All
    }),
    ("SHUTDOWN_GRACE_PERIOD", "77s", |c| {
        c.shutdown.grace == S(77)
    }),
    ("LINKERD_PROXY_SHUTDOWN_WINDOW", "77s", |c| {
        c.shutdown.window == S(77)
    }),
    ("LINKERD_PROXY_HTTP_HEADER_TIMEOUT", "77s", |c| {
        c.header_timeout == S(77)
    }),
    ("DESTINATION_SVC_ADDR", "127.0.0.1:1", |c| {
        c.control.destination.addr.to_string() == "127.0.0.1:1"
    }),
    ("DESTINATION_CONTEXT", "token", |c| {
        c.control.context == "token"
    }),
    ("DESTINATION_PROFILE_SUFFIXES", "a.b", |c| {
        c.control.profile_suffixes.matches("x.a.b")
    }),
    ("DESTINATION_PROFILE_NETWORKS", "10.0.0.0/8", |c| {
        c.control
            .profile_networks
            .contains("10.1.1.1".parse().unwrap())
    }),
    ("POLICY_SVC_ADDR", "127.0.0.1:1", |c| {
        c.control.policy.addr.to_string() == "127.0.0.1:1"
    }),
    ("POLICY_WORKLOAD", "token", |c| {
        c.control.workload == "token"
    }),
    ("POLICY_CLUSTER_NETWORKS", "10.0.0.0/8", |c| {
        c.control
            .cluster_networks
            .contains("10.1.1.1".parse().unwrap())
    }),
    ("DNS_MIN_TTL", "77s", |c| c.dns.min_ttl == Some(S(77))),
    ("DNS_MAX_TTL", "77s", |c| c.dns.max_ttl == Some(S(77))),
    ("LINKERD_PROXY_DISCOVERY_MAX_DESTINATIONS", "77", |c| {
        c.discovery.max_destinations == 77
    }),
    ("LINKERD_PROXY_DISCOVERY_MAX_ENDPOINTS", "77", |c| {
        c.discovery.max_endpoints == 77
    }),
    ("CORES", "77", |c| c.workers.min == 77),
    ("CORES_MIN", "77", |c| c.workers.min == 77),
    ("CORES_MAX", "77", |c| c.workers.max == Some(77)),
    ("CORES_MAX_RATIO", "0.77", |c| {
        c.workers.max_ratio == Some(0.77)
    }),
    ("LOG", "off", |c| c.log.is_off()),
    ("LOG_FORMAT", "json", |c| c.log.format == LogFormat::Json),
    ("ACCESS_LOG", "apache", |c| {
        c.access_log.as_ref().map(|log| log.format) == Some(AccessLogFormat::Apache)
    }),
    ("LINKERD_PROXY_ACCESS_LOG_FORMAT", "full", |c| {
        c.access_log.as_ref().map(|log| log.format) == Some(AccessLogFormat::Full)
    }),
];

/// Variables of several fields, or with an effect only together with others: tested separately.
const ELSEWHERE: &[&str] = &[
    "LINKERD_PROXY_ACCESS_LOG_OUTPUT",
    "LINKERD_PROXY_ACCESS_LOG_SAMPLE",
    "LINKERD_PROXY_ACCESS_LOG_QUERY",
    "LINKERD_PROXY_ACCESS_LOG_HEADERS",
    "TRACE_",
    "LINKERD_PROXY_TRACE_",
    "OTEL_RESOURCE_ATTRIBUTES",
    "HOSTNAME",
    "INBOUND_CONNECT_EXP_BACKOFF_",
    "OUTBOUND_CONNECT_EXP_BACKOFF_",
    "INBOUND_SERVER_HTTP2_INITIAL_",
    "OUTBOUND_SERVER_HTTP2_INITIAL_",
    "INBOUND_SERVER_HTTP2_KEEP_ALIVE_",
    "OUTBOUND_SERVER_HTTP2_KEEP_ALIVE_",
    "HTTP2_INITIAL_",
    "INGRESS_MODE",
    "CONTROL_STREAM_",
    "DESTINATION_SVC_NAME",
    "POLICY_SVC_NAME",
    "IDENTITY_",
    "LINKERD_PROXY_IDENTITY_",
    "LINKERD2_PROXY_LINKERD2_PROXY_IDENTITY_SPIRE_",
    "LINKERD_PROXY_OUTBOUND_HEDGE_",
    "TAP_",
    "CONTROL_LISTEN_ADDR",
];

#[test]
fn each_variable_reaches_its_field() {
    let default = load(&[]);
    for (name, value, reaches) in CASES {
        assert!(!reaches(&default), "{name}: the default would pass as well");
        assert!(reaches(&load(&[(name, value)])), "{name}={value}");
    }
}

#[test]
fn a_variable_reaches_one_field_only() {
    let default = format!("{:#?}", load(&[]));
    for (name, value, _) in CASES {
        let changed = format!("{:#?}", load(&[(name, value)]));
        if changed.lines().count() == default.lines().count() {
            let differing = default
                .lines()
                .zip(changed.lines())
                .filter(|(a, b)| a != b)
                .count();
            // Controllers on loopback are dialled like the application.
            let expected = if *name == "INBOUND_CONNECT_TIMEOUT" {
                3
            } else {
                1
            };
            assert_eq!(differing, expected, "{name}={value}");
        }
    }
}

#[test]
fn every_variable_that_is_used_is_tested() {
    for variable in VARIABLES
        .iter()
        .filter(|variable| variable.status == VariableStatus::Used)
    {
        let here = CASES.iter().any(|(name, ..)| full(name) == variable.name);
        let elsewhere = ELSEWHERE
            .iter()
            .any(|part| variable.name.starts_with(&full(part)));
        assert!(here != elsewhere, "{}", variable.name);
    }
}

#[test]
fn pairs_and_triples_reach_their_fields() {
    for (direction, settings) in [
        (
            "INBOUND",
            (|c| (&c.inbound.connect, &c.inbound.http2_server))
                as fn(&Config) -> (&ConnectConfig, &_),
        ),
        ("OUTBOUND", |c| {
            (&c.outbound.connect, &c.outbound.http2_server)
        }),
    ] {
        let vars = [
            ("CONNECT_EXP_BACKOFF_MIN", "77s"),
            ("CONNECT_EXP_BACKOFF_MAX", "78s"),
            ("CONNECT_EXP_BACKOFF_JITTER", "0.7"),
            ("SERVER_HTTP2_INITIAL_STREAM_WINDOW_SIZE", "77"),
            ("SERVER_HTTP2_INITIAL_CONNECTION_WINDOW_SIZE", "78"),
            ("SERVER_HTTP2_KEEP_ALIVE_INTERVAL", "77s"),
            ("SERVER_HTTP2_KEEP_ALIVE_TIMEOUT", "78s"),
        ]
        .map(|(name, value)| (format!("{direction}_{name}"), value));
        let vars: Vec<_> = vars
            .iter()
            .map(|(name, value)| (name.as_str(), *value))
            .collect();
        let config = load(&vars);
        let (connect, http2): (_, &linkerd_proxy_core::http::Http2Settings) = settings(&config);
        assert_eq!(
            connect.backoff,
            linkerd_proxy_core::Backoff::new(S(77), S(78), 0.7).unwrap()
        );
        assert_eq!(
            http2.flow_control,
            Some(FlowControl::Fixed {
                stream: 77,
                connection: 78
            })
        );
        let keep_alive = http2.keep_alive.unwrap();
        assert_eq!((keep_alive.interval, keep_alive.timeout), (S(77), S(78)));
    }

    let config = load(&[
        ("HTTP2_INITIAL_STREAM_WINDOW_SIZE", "77"),
        ("HTTP2_INITIAL_CONNECTION_WINDOW_SIZE", "78"),
    ]);
    let windows = Some(FlowControl::Fixed {
        stream: 77,
        connection: 78,
    });
    for client in [
        &config.inbound.http2_client,
        &config.outbound.http2_client,
        &config.control.http2,
    ] {
        assert_eq!(client.flow_control, windows);
    }

    let names = [
        ("DESTINATION_SVC_ADDR", "dst:1"),
        ("DESTINATION_SVC_NAME", "dst.name"),
        ("POLICY_SVC_ADDR", "pol:1"),
        ("POLICY_SVC_NAME", "pol.name"),
    ];
    let control = load(&names).control;
    assert_eq!(control.destination.tls_name.as_deref(), Some("dst.name"));
    assert_eq!(control.policy.tls_name.as_deref(), Some("pol.name"));
    assert!(load(&[("INGRESS_MODE", "true")]).outbound.ingress_mode);
}
