//! Defaults of the variables.

use super::*;
use crate::config::variables::VariableDefault;
use linkerd_proxy_core::Backoff;
use linkerd_proxy_core::http::{FlowControl, Http2Settings, PoolSettings, QueueSettings};
use linkerd_proxy_core::subscription::StreamLimits;
use linkerd_proxy_core::transport::SocketOptions;
use std::time::Duration;

const MS: fn(u64) -> Duration = Duration::from_millis;
const S: fn(u64) -> Duration = Duration::from_secs;

/// The documented defaults of linkerd2-proxy's variables. `-`: none.
const DEFAULTS: &[(&str, &str)] = &[
    ("OUTBOUND_LISTEN_ADDRS", "-"),
    ("OUTBOUND_LISTEN_ADDR", "127.0.0.1:4140"),
    ("INBOUND_LISTEN_ADDR", "0.0.0.0:4143"),
    ("LINKERD_PROXY_INBOUND_ENABLED", "true"),
    ("CONTROL_LISTEN_ADDR", "0.0.0.0:4190"),
    ("ADMIN_LISTEN_ADDR", "127.0.0.1:4191"),
    ("METRICS_RETAIN_IDLE", "10m"),
    ("LINKERD_PROXY_METRICS_NATIVE_HISTOGRAMS", "false"),
    ("SHUTDOWN_ENDPOINT_ENABLED", "false"),
    ("SHUTDOWN_GRACE_PERIOD", "2m"),
    ("LINKERD_PROXY_ADMIN_CONSOLE", "loopback"),
    ("LINKERD_PROXY_SHUTDOWN_WINDOW", "1s"),
    ("CORES", "-"),
    ("CORES_MIN", "1"),
    ("CORES_MAX", "-"),
    ("CORES_MAX_RATIO", "-"),
    ("LOG", "warn,linkerd=info,hickory=error"),
    ("LOG_FORMAT", "plain"),
    ("ACCESS_LOG", "-"),
    ("LINKERD_PROXY_ACCESS_LOG_FORMAT", "-"),
    ("LINKERD_PROXY_ACCESS_LOG_OUTPUT", "stderr"),
    ("LINKERD_PROXY_ACCESS_LOG_SAMPLE", "1"),
    ("LINKERD_PROXY_ACCESS_LOG_QUERY", "false"),
    ("LINKERD_PROXY_ACCESS_LOG_HEADERS", "-"),
    ("INGRESS_MODE", "false"),
    ("OUTBOUND_DISABLE_INFORMATIONAL_HEADERS", "-"),
    ("INBOUND_ACCEPT_KEEPALIVE", "10s"),
    ("OUTBOUND_ACCEPT_KEEPALIVE", "-"),
    ("INBOUND_CONNECT_KEEPALIVE", "-"),
    ("OUTBOUND_CONNECT_KEEPALIVE", "10s"),
    ("INBOUND_ACCEPT_USER_TIMEOUT", "30s"),
    ("OUTBOUND_ACCEPT_USER_TIMEOUT", "-"),
    ("INBOUND_CONNECT_USER_TIMEOUT", "-"),
    ("OUTBOUND_CONNECT_USER_TIMEOUT", "30s"),
    ("INBOUND_TCP_LISTEN_BACKLOG", "-"),
    ("OUTBOUND_TCP_LISTEN_BACKLOG", "-"),
    ("INBOUND_CONNECT_TIMEOUT", "300ms"),
    ("OUTBOUND_CONNECT_TIMEOUT", "1s"),
    ("INBOUND_CONNECT_EXP_BACKOFF_MIN", "100ms"),
    ("INBOUND_CONNECT_EXP_BACKOFF_MAX", "10s"),
    ("INBOUND_CONNECT_EXP_BACKOFF_JITTER", "0.1"),
    ("OUTBOUND_CONNECT_EXP_BACKOFF_MIN", "100ms"),
    ("OUTBOUND_CONNECT_EXP_BACKOFF_MAX", "60s"),
    ("OUTBOUND_CONNECT_EXP_BACKOFF_JITTER", "0.1"),
    ("INBOUND_DETECT_TIMEOUT", "10s"),
    ("OUTBOUND_DETECT_TIMEOUT", "10s"),
    ("DNS_MIN_TTL", "-"),
    ("DNS_MAX_TTL", "-"),
    ("INBOUND_HTTP_QUEUE_CAPACITY", "10000"),
    ("INBOUND_HTTP_FAILFAST_TIMEOUT", "1s"),
    ("OUTBOUND_TCP_QUEUE_CAPACITY", "10000"),
    ("OUTBOUND_TCP_FAILFAST_TIMEOUT", "3s"),
    ("OUTBOUND_HTTP_QUEUE_CAPACITY", "10000"),
    ("OUTBOUND_HTTP_FAILFAST_TIMEOUT", "3s"),
    ("INBOUND_MAX_IN_FLIGHT", "100000"),
    ("OUTBOUND_MAX_IN_FLIGHT", "100000"),
    ("MAX_IDLE_CONNS_PER_ENDPOINT", "10000"),
    ("INBOUND_MAX_IDLE_CONNS_PER_ENDPOINT", "-"),
    ("OUTBOUND_MAX_IDLE_CONNS_PER_ENDPOINT", "10000"),
    ("INBOUND_HTTP1_CONNECTION_POOL_IDLE_TIMEOUT", "3s"),
    ("OUTBOUND_HTTP1_CONNECTION_POOL_IDLE_TIMEOUT", "3s"),
    ("HTTP2_INITIAL_STREAM_WINDOW_SIZE", "65535"),
    ("HTTP2_INITIAL_CONNECTION_WINDOW_SIZE", "16777216"),
    ("DESTINATION_SVC_ADDR", "-"),
    ("DESTINATION_SVC_NAME", "-"),
    ("DESTINATION_CONTEXT", ""),
    ("DESTINATION_PROFILE_SUFFIXES", "svc.cluster.local."),
    ("DESTINATION_PROFILE_NETWORKS", ""),
    ("DESTINATION_PROFILE_INITIAL_TIMEOUT", "500ms"),
    ("INBOUND_GATEWAY_SUFFIXES", ""),
    ("OUTBOUND_DISCOVERY_IDLE_TIMEOUT", "5s"),
    ("INBOUND_DISCOVERY_IDLE_TIMEOUT", "90s"),
    ("POLICY_SVC_ADDR", "-"),
    ("POLICY_SVC_NAME", "-"),
    ("POLICY_WORKLOAD", "-"),
    ("POLICY_CLUSTER_NETWORKS", ""),
    ("INBOUND_DEFAULT_POLICY", "all-unauthenticated"),
    ("LINKERD_PROXY_INBOUND_ADMIT_LOOPBACK", "true"),
    ("LINKERD_PROXY_INBOUND_DETECTED_HTTP_ONLY", "false"),
    ("LINKERD_PROXY_INBOUND_FORWARDED_HEADER", "off"),
    ("LINKERD_PROXY_INBOUND_PROXY_PROTOCOL_PORTS", ""),
    ("INBOUND_PORTS", ""),
    ("INBOUND_PORTS_DISABLE_PROTOCOL_DETECTION", ""),
    ("INBOUND_IPS", "-"),
    ("INBOUND_PORTS_REQUIRE_IDENTITY", "-"),
    ("INBOUND_PORTS_REQUIRE_TLS", "-"),
    ("OUTBOUND_METRICS_HOSTNAME_LABELS", "false"),
    ("INBOUND_METRICS_AUTHORITY_LABELS", ""),
    ("CONTROL_STREAM_INITIAL_TIMEOUT", "-"),
    ("CONTROL_STREAM_IDLE_TIMEOUT", "-"),
    ("CONTROL_STREAM_LIFETIME", "-"),
    ("IDENTITY_DISABLED", "-"),
    ("IDENTITY_TRUST_ANCHORS", "-"),
    ("LINKERD_PROXY_IDENTITY_TRUST_ANCHORS_FILE", "-"),
    ("IDENTITY_LOCAL_NAME", "-"),
    ("IDENTITY_SERVER_ID", "-"),
    ("IDENTITY_SERVER_NAME", "-"),
    ("IDENTITY_DIR", "-"),
    ("IDENTITY_TOKEN_FILE", "-"),
    ("IDENTITY_SVC_ADDR", "-"),
    ("IDENTITY_SVC_NAME", "-"),
    ("IDENTITY_MIN_REFRESH", "10s"),
    ("IDENTITY_MAX_REFRESH", "24h"),
    ("IDENTITY_SPIRE_WORKLOAD_API_ADDRESS", "-"),
    ("IDENTITY_SPIRE_SOCKET", "-"),
    (
        "LINKERD2_PROXY_LINKERD2_PROXY_IDENTITY_SPIRE_EXP_BACKOFF_MIN",
        "100ms",
    ),
    (
        "LINKERD2_PROXY_LINKERD2_PROXY_IDENTITY_SPIRE_EXP_BACKOFF_MAX",
        "1s",
    ),
    (
        "LINKERD2_PROXY_LINKERD2_PROXY_IDENTITY_SPIRE_EXP_BACKOFF_JITTER",
        "0.1",
    ),
    ("IDENTITY_SPIRE_EXP_BACKOFF_MIN", "-"),
    ("IDENTITY_SPIRE_EXP_BACKOFF_MAX", "-"),
    ("IDENTITY_SPIRE_EXP_BACKOFF_JITTER", "-"),
    ("TAP_SVC_NAME", "-"),
    ("TAP_DISABLED", "-"),
    ("LINKERD_PROXY_TAP_SECRET_HEADERS", "false"),
    ("TRACE_COLLECTOR_SVC_ADDR", "-"),
    ("TRACE_COLLECTOR_SVC_NAME", "-"),
    ("LINKERD_PROXY_TRACE_SAMPLE", "0"),
    ("LINKERD_PROXY_TRACE_OUTPUT", "-"),
    ("TRACE_SERVICE_NAME", "-"),
    ("TRACE_ATTRIBUTES_PATH", "-"),
    ("TRACE_EXTRA_ATTRIBUTES", "-"),
    ("TRACE_PROTOCOL", "-"),
    ("TRACE_ANNOTATIONS_PATH", "-"),
    ("OTEL_RESOURCE_ATTRIBUTES", "-"),
    ("HOSTNAME", "-"),
    ("VERSION", "-"),
    ("VENDOR", "-"),
    ("LINKERD_PROXY_OUTBOUND_BALANCER_LOAD", "peak-ewma"),
    ("LINKERD_PROXY_OUTBOUND_BALANCER_SLOW_START", "0s"),
    ("LINKERD_PROXY_OUTBOUND_BALANCER_PREFER_ZONE", "false"),
    ("LINKERD_PROXY_OUTBOUND_BALANCER_AFFINITY", "-"),
    ("LINKERD_PROXY_OUTBOUND_HEDGE_PERCENTILE", "-"),
    ("LINKERD_PROXY_OUTBOUND_HEDGE_MIN_DELAY", "1ms"),
    ("LINKERD_PROXY_OUTBOUND_EXPLICIT", "false"),
    ("LINKERD_PROXY_OUTBOUND_ALLOW_LOOPBACK", "false"),
    ("LINKERD_PROXY_OUTBOUND_ALLOW_UNKNOWN", "true"),
    ("LINKERD_PROXY_HTTP_HEADER_TIMEOUT", "60s"),
    (
        "LINKERD_PROXY_OUTBOUND_HTTP2_MAX_CONNECTIONS_PER_ENDPOINT",
        "8",
    ),
    ("LINKERD_PROXY_OUTBOUND_REPLAY_MAX_BYTES", "65536"),
    ("LINKERD_PROXY_DISCOVERY_MAX_DESTINATIONS", "10000"),
    ("LINKERD_PROXY_DISCOVERY_MAX_ENDPOINTS", "100000"),
];

/// The same for both directions.
const SERVER_HTTP2_DEFAULTS: &[(&str, &str)] = &[
    ("ADAPTIVE_FLOW_CONTROL", "false"),
    ("INITIAL_STREAM_WINDOW_SIZE", "65535"),
    ("INITIAL_CONNECTION_WINDOW_SIZE", "4194304"),
    ("KEEP_ALIVE_INTERVAL", "-"),
    ("KEEP_ALIVE_TIMEOUT", "-"),
    ("MAX_CONCURRENT_STREAMS", "10000"),
    ("MAX_FRAME_SIZE", "-"),
    ("MAX_HEADER_LIST_SIZE", "-"),
    ("MAX_PENDING_ACCEPT_RESET_STREAMS", "-"),
    ("MAX_SEND_BUF_SIZE", "-"),
];

#[test]
fn the_table_has_exactly_the_documented_variables_and_defaults() {
    let mut expected: Vec<_> = DEFAULTS
        .iter()
        .map(|(name, default)| (full(name), *default))
        .collect();
    for direction in ["INBOUND", "OUTBOUND"] {
        let names = SERVER_HTTP2_DEFAULTS.iter();
        expected.extend(
            names.map(|(name, default)| {
                (full(&format!("{direction}_SERVER_HTTP2_{name}")), *default)
            }),
        );
    }
    expected.sort();
    let mut rows: Vec<_> = VARIABLES
        .iter()
        .map(|variable| match variable.default {
            VariableDefault::Text(text) => (variable.name.to_owned(), text),
            _ => (variable.name.to_owned(), "-"),
        })
        .collect();
    rows.sort();
    for (row, expected) in rows.iter().zip(&expected) {
        assert_eq!(row, expected);
    }
    assert_eq!(rows.len(), expected.len());
}

#[test]
fn every_default_is_valid() {
    for variable in VARIABLES {
        if let VariableDefault::Text(text) = variable.default {
            assert!(
                (variable.kind.check)(text).is_ok(),
                "{}={text:?}",
                variable.name
            );
        }
    }
}

#[test]
fn the_least_environment_gives_the_defaults() {
    let config = load(&[]);
    let http2_with = |connection| Http2Settings {
        flow_control: Some(FlowControl::Fixed {
            stream: 65_535,
            connection,
        }),
        ..Http2Settings::default()
    };
    let http2 = http2_with(16_777_216);
    let http2_server = Http2Settings {
        max_concurrent_streams: Some(10_000),
        ..http2_with(4_194_304)
    };
    let pool = PoolSettings {
        max_idle: 10_000,
        idle_timeout: S(3),
    };
    let queue = |failfast| QueueSettings {
        capacity: 10_000,
        failfast,
    };
    let (local, remote) = (
        SocketOptions::default(),
        SocketOptions {
            keepalive: Some(S(10)),
            user_timeout: Some(S(30)),
        },
    );
    let connect = |timeout, max, socket| ConnectConfig {
        timeout,
        backoff: Backoff::new(MS(100), max, 0.1).unwrap(),
        socket,
    };
    let inbound = connect(MS(300), S(10), local);
    let outbound = connect(S(1), S(60), remote);
    let controller = |addr: &str| ControlAddr {
        addr: grammar::addr(addr).unwrap(),
        tls_name: None,
        is_loopback: true,
        connect: inbound,
        limits: StreamLimits::default(),
    };
    let expected = Config {
        identity: None,
        outbound: OutboundConfig {
            listen: vec!["127.0.0.1:4140".parse().unwrap()],
            backlog: None,
            accept: local,
            connect: outbound,
            detect_timeout: S(10),
            discovery_idle: S(5),
            tcp_queue: queue(S(3)),
            http_queue: queue(S(3)),
            max_in_flight: 100_000,
            pool,
            http2_server: http2_server.clone(),
            http2_client: http2.clone(),
            balancer: BalancerConfig::default(),
            http2_max_connections: 8,
            replay_max_bytes: 65_536,
            hedge: None,
            explicit: false,
            allow_loopback: false,
            allow_unknown: true,
            ingress_mode: false,
            emit_headers: true,
            hostname_labels: false,
        },
        inbound: InboundConfig {
            listen: Some("0.0.0.0:4143".parse().unwrap()),
            backlog: None,
            accept: remote,
            connect: inbound,
            detect_timeout: S(10),
            discovery_idle: S(90),
            http_queue: queue(S(1)),
            max_in_flight: 100_000,
            pool,
            http2_server: http2_server.clone(),
            http2_client: http2.clone(),
            ips: [].into(),
            ports: [].into(),
            opaque_ports: [].into(),
            default_policy: DefaultPolicy::AllUnauthenticated,
            admit_loopback: true,
            detected_http_only: false,
            forwarded_header: ForwardedHeader::Off,
            proxy_protocol_ports: [].into(),
            gateway_suffixes: NameSuffixes::default(),
            profile_timeout: MS(500),
            authority_labels: false,
        },
        admin: AdminConfig {
            listen: "127.0.0.1:4191".parse().unwrap(),
            metrics_retain_idle: S(600),
            native_histograms: false,
            shutdown_enabled: false,
            console: crate::config::ConsoleAccess::Loopback,
        },
        tap: crate::config::TapConfig {
            server: None,
            shows_secrets: false,
        },
        control: ControlConfig {
            destination: controller("127.0.0.1:8086"),
            policy: controller("localhost.:8090"),
            http2,
            context: String::new(),
            workload: "{\"ns\":\"a\"}\n".to_owned(),
            profile_suffixes: grammar::suffixes("svc.cluster.local.").unwrap(),
            profile_networks: Networks::default(),
            cluster_networks: Networks::default(),
        },
        dns: DnsConfig::default(),
        discovery: DiscoveryConfig {
            max_destinations: 10_000,
            max_endpoints: 100_000,
        },
        workers: WorkersConfig {
            min: 1,
            max: None,
            max_ratio: None,
        },
        log: LogConfig {
            filter: "warn,linkerd=info,hickory=error".to_owned(),
            format: LogFormat::Plain,
        },
        access_log: None,
        trace: None,
        header_timeout: S(60),
        shutdown: ShutdownConfig {
            grace: S(120),
            window: S(1),
        },
    };
    assert_eq!(config, expected);
}

#[test]
fn values_that_depend_on_others() {
    assert!(!load(&[("INGRESS_MODE", "true")]).outbound.emit_headers);
    let kept = [
        ("INGRESS_MODE", "true"),
        ("OUTBOUND_DISABLE_INFORMATIONAL_HEADERS", "false"),
    ];
    assert!(load(&kept).outbound.emit_headers);

    assert_eq!(load(&[("CORES", "3")]).workers.min, 3);
    assert_eq!(load(&[("CORES", "3"), ("CORES_MIN", "2")]).workers.min, 2);

    assert_eq!(
        load(&[("MAX_IDLE_CONNS_PER_ENDPOINT", "5")])
            .inbound
            .pool
            .max_idle,
        5
    );
    assert_eq!(
        load(&[("INBOUND_MAX_IDLE_CONNS_PER_ENDPOINT", "6")])
            .inbound
            .pool
            .max_idle,
        6
    );

    let backoff = [
        ("INBOUND_CONNECT_EXP_BACKOFF_MIN", "1s"),
        ("INBOUND_CONNECT_EXP_BACKOFF_MAX", "2s"),
    ];
    assert_eq!(
        load(&backoff).inbound.connect.backoff,
        Backoff::new(S(1), S(2), 0.0).unwrap()
    );

    let windows = |vars: &[(&str, &str)]| load(vars).inbound.http2_server.flow_control.unwrap();
    let stream = ("INBOUND_SERVER_HTTP2_INITIAL_STREAM_WINDOW_SIZE", "70000");
    let connection = (
        "INBOUND_SERVER_HTTP2_INITIAL_CONNECTION_WINDOW_SIZE",
        "90000",
    );
    assert_eq!(
        windows(&[stream, connection]),
        FlowControl::Fixed {
            stream: 70_000,
            connection: 90_000
        }
    );
    assert_eq!(
        windows(&[stream]),
        FlowControl::Fixed {
            stream: 65_535,
            connection: 4_194_304
        }
    );
    let adaptive = ("INBOUND_SERVER_HTTP2_ADAPTIVE_FLOW_CONTROL", "true");
    assert_eq!(
        windows(&[stream, connection, adaptive]),
        FlowControl::Adaptive
    );
}

#[test]
fn what_only_this_proxy_has() {
    let config = load(&[
        ("LINKERD_PROXY_OUTBOUND_EXPLICIT", "1"),
        ("LINKERD_PROXY_OUTBOUND_ALLOW_LOOPBACK", "true"),
        ("LINKERD_PROXY_OUTBOUND_REPLAY_MAX_BYTES", "0"),
        ("LINKERD_PROXY_HTTP_HEADER_TIMEOUT", "5s"),
        ("LINKERD_PROXY_DISCOVERY_MAX_ENDPOINTS", "7"),
    ]);
    assert!(config.outbound.explicit && config.outbound.allow_loopback);
    assert_eq!(config.outbound.replay_max_bytes, 0);
    assert_eq!(config.header_timeout, S(5));
    assert_eq!(config.discovery.max_endpoints, 7);
}
