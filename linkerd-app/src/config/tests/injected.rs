//! The environment of a real injector, and the configuration that it gives.

use super::*;
use linkerd_proxy_core::http::KeepAlive;
use linkerd_proxy_core::subscription::StreamLimits;
use linkerd_proxy_core::transport::SocketOptions;
use std::time::Duration;

const S: fn(u64) -> Duration = Duration::from_secs;

/// The variables that the injector of a real control plane sets in a pod.
const INJECTED: &[(&str, &str)] = &[
    ("OUTBOUND_LISTEN_ADDRS", "127.0.0.1:4140,[::1]:4140"),
    ("OUTBOUND_LISTEN_ADDR", "127.0.0.1:4140"),
    ("INBOUND_LISTEN_ADDR", "[::]:4143"),
    ("CONTROL_LISTEN_ADDR", "[::]:4190"),
    ("ADMIN_LISTEN_ADDR", "[::]:4191"),
    ("SHUTDOWN_ENDPOINT_ENABLED", "false"),
    ("CORES", "1"),
    ("CORES_MIN", "1"),
    (
        "LOG",
        "warn,linkerd=info,hickory=error,[{headers}]=off,[{request}]=off",
    ),
    ("LOG_FORMAT", "plain"),
    ("INBOUND_ACCEPT_KEEPALIVE", "10000ms"),
    ("OUTBOUND_CONNECT_KEEPALIVE", "10000ms"),
    ("INBOUND_ACCEPT_USER_TIMEOUT", "30s"),
    ("OUTBOUND_CONNECT_USER_TIMEOUT", "30s"),
    ("INBOUND_CONNECT_TIMEOUT", "100ms"),
    ("OUTBOUND_CONNECT_TIMEOUT", "1000ms"),
    ("INBOUND_SERVER_HTTP2_KEEP_ALIVE_INTERVAL", "10s"),
    ("INBOUND_SERVER_HTTP2_KEEP_ALIVE_TIMEOUT", "3s"),
    ("OUTBOUND_SERVER_HTTP2_KEEP_ALIVE_INTERVAL", "10s"),
    ("OUTBOUND_SERVER_HTTP2_KEEP_ALIVE_TIMEOUT", "3s"),
    (
        "DESTINATION_SVC_ADDR",
        "linkerd-dst-headless.linkerd.svc.cluster.local.:8086",
    ),
    (
        "DESTINATION_SVC_NAME",
        "linkerd-destination.linkerd.serviceaccount.identity.linkerd.cluster.local",
    ),
    (
        "DESTINATION_CONTEXT",
        "{\"ns\":\"a\", \"nodeName\":\"n\", \"pod\":\"p\"}\n",
    ),
    ("DESTINATION_PROFILE_SUFFIXES", "svc.cluster.local."),
    (
        "DESTINATION_PROFILE_NETWORKS",
        "10.0.0.0/8,100.64.0.0/10,172.16.0.0/12,192.168.0.0/16,fd00::/8",
    ),
    (
        "POLICY_SVC_ADDR",
        "linkerd-policy.linkerd.svc.cluster.local.:8090",
    ),
    (
        "POLICY_SVC_NAME",
        "linkerd-destination.linkerd.serviceaccount.identity.linkerd.cluster.local",
    ),
    ("POLICY_WORKLOAD", "{\"ns\":\"a\", \"pod\":\"p\"}\n"),
    (
        "POLICY_CLUSTER_NETWORKS",
        "10.0.0.0/8,100.64.0.0/10,172.16.0.0/12,192.168.0.0/16,fd00::/8",
    ),
    ("INBOUND_DEFAULT_POLICY", "cluster-unauthenticated"),
    ("INBOUND_PORTS", "8080,9090"),
    (
        "INBOUND_PORTS_DISABLE_PROTOCOL_DETECTION",
        "25,587,3306,4444,5432,6379,9300,11211",
    ),
    ("INBOUND_PORTS_REQUIRE_TLS", "8080"),
    ("INBOUND_IPS", "10.42.0.7,fd00::7"),
    ("OUTBOUND_METRICS_HOSTNAME_LABELS", "false"),
    ("OUTBOUND_DISCOVERY_IDLE_TIMEOUT", "5s"),
    ("INBOUND_DISCOVERY_IDLE_TIMEOUT", "90s"),
    ("CONTROL_STREAM_INITIAL_TIMEOUT", "3s"),
    ("CONTROL_STREAM_IDLE_TIMEOUT", "5m"),
    ("CONTROL_STREAM_LIFETIME", "1h"),
    ("IDENTITY_DIR", "/var/run/linkerd/identity/end-entity"),
    ("IDENTITY_TRUST_ANCHORS", "-----BEGIN CERTIFICATE-----\n"),
    (
        "IDENTITY_TOKEN_FILE",
        "/var/run/secrets/tokens/linkerd-identity-token",
    ),
    (
        "IDENTITY_SVC_ADDR",
        "linkerd-identity-headless.linkerd.svc.cluster.local.:8080",
    ),
    (
        "IDENTITY_LOCAL_NAME",
        "default.a.serviceaccount.identity.linkerd.cluster.local",
    ),
    (
        "IDENTITY_SVC_NAME",
        "linkerd-identity.linkerd.serviceaccount.identity.linkerd.cluster.local",
    ),
    ("TRACE_PROTOCOL", "opentelemetry"),
    (
        "TRACE_ANNOTATIONS_PATH",
        "/var/run/linkerd/podinfo/annotations",
    ),
    ("HOSTNAME", "p"),
];

#[test]
fn what_an_injector_sets_is_accepted() {
    let loaded = loaded(INJECTED);
    assert_eq!(loaded.warnings, [""; 0]);
    let Config {
        inbound,
        outbound,
        control,
        ..
    } = loaded.config;
    assert_eq!(outbound.listen.len(), 2);
    assert_eq!(
        inbound.accept,
        SocketOptions {
            keepalive: Some(S(10)),
            user_timeout: Some(S(30))
        }
    );
    let keep_alive = KeepAlive {
        interval: S(10),
        timeout: S(3),
        while_idle: true,
    };
    assert_eq!(inbound.http2_server.keep_alive, Some(keep_alive));
    assert_eq!(inbound.ips.len(), 2);
    assert_eq!(inbound.opaque_ports.len(), 8);
    let limits = StreamLimits {
        initial: Some(S(3)),
        idle: Some(S(300)),
        lifetime: Some(S(3_600)),
    };
    for controller in [&control.destination, &control.policy] {
        assert_eq!(controller.limits, limits);
        assert_eq!(controller.connect, outbound.connect);
        assert!(!controller.is_loopback && controller.tls_name.is_some());
    }
    assert!(
        control.workload.ends_with('\n') && control.context.ends_with('\n'),
        "tokens are sent as they are"
    );
}

#[test]
fn a_controller_on_loopback_has_no_tls_and_no_limits() {
    let config = load(&[
        ("DESTINATION_SVC_NAME", "ignored.name"),
        ("CONTROL_STREAM_LIFETIME", "1h"),
    ]);
    for controller in [&config.control.destination, &config.control.policy] {
        assert_eq!(
            (controller.is_loopback, &controller.tls_name),
            (true, &None)
        );
        assert_eq!(controller.limits, StreamLimits::default());
        assert_eq!(controller.connect, config.inbound.connect);
    }
}
