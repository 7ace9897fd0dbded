//! A table of annotations: the name of each, and the change of the settings by its value.

use super::{
    ProxySettings,
    env_list::env_list,
    grammar::{
        bool_value, choice, duration, number, one_of, port, ports, ports_or_names, quantity,
        seconds, subnets, switch, text,
    },
};

/// The prefix of the annotations of settings.
pub const CONFIG_PREFIX: &str = "config.linkerd.io/";

/// Istio's annotations with the same meaning, and the setting of each.
pub(crate) const ISTIO_SETTINGS: &[(&str, &str)] = &[
    (
        "traffic.sidecar.istio.io/excludeInboundPorts",
        "skip-inbound-ports",
    ),
    (
        "traffic.sidecar.istio.io/excludeOutboundPorts",
        "skip-outbound-ports",
    ),
    ("sidecar.istio.io/proxyCPU", "proxy-cpu-request"),
    ("sidecar.istio.io/proxyCPULimit", "proxy-cpu-limit"),
    ("sidecar.istio.io/proxyMemory", "proxy-memory-request"),
    ("sidecar.istio.io/proxyMemoryLimit", "proxy-memory-limit"),
    (
        "sidecar.istio.io/nativeSidecar",
        "proxy-enable-native-sidecar",
    ),
];

/// Changes the setting of a name; `None` if there is no such setting.
pub(crate) fn set(
    settings: &mut ProxySettings,
    name: &str,
    value: &str,
) -> Option<Result<(), String>> {
    let (_, set) = SETTINGS.iter().find(|(known, _)| *known == name)?;
    Some(set(settings, value.trim()).map_err(|error| format!("{name}: {error}")))
}

/// The names of all settings.
pub(crate) fn setting_names() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().map(|(name, _)| *name)
}

type Set = fn(&mut ProxySettings, &str) -> Result<(), String>;

/// Checks a quantity and keeps it as written.
fn amount(value: &str) -> Result<Option<String>, String> {
    quantity(value)?;
    Ok(Some(value.to_owned()))
}

const SETTINGS: &[(&str, Set)] = &[
    ("access-log", |s, v| {
        s.access_log = Some(one_of(v, &["apache", "json"])?);
        Ok(())
    }),
    ("admin-port", |s, v| port(v).map(|it| s.ports.admin = it)),
    ("close-wait-timeout", |s, v| {
        seconds(v).map(|it| s.close_wait_seconds = Some(it))
    }),
    ("control-port", |s, v| {
        port(v).map(|it| s.ports.control = it)
    }),
    ("default-inbound-policy", |s, v| {
        let policies = [
            "all-unauthenticated",
            "all-authenticated",
            "cluster-unauthenticated",
            "cluster-authenticated",
            "audit",
            "deny",
        ];
        one_of(v, &policies).map(|it| s.default_inbound_policy = it)
    }),
    ("enable-debug-sidecar", |s, v| {
        bool_value(v).map(|it| s.debug_sidecar = it)
    }),
    ("enable-external-profiles", |s, v| {
        bool_value(v).map(|it| s.external_profiles = it)
    }),
    ("enable-gateway", |s, v| {
        bool_value(v).map(|it| s.gateway = it)
    }),
    ("image-pull-policy", |s, v| {
        let policies = ["Always", "IfNotPresent", "Never"];
        one_of(v, &policies).map(|it| s.image_pull_policy = it)
    }),
    ("inbound-port", |s, v| {
        port(v).map(|it| s.ports.inbound = it)
    }),
    ("init-image", |s, v| {
        text(v).map(|it| s.init_image = Some(it))
    }),
    ("init-image-version", |s, v| {
        text(v).map(|it| s.init_version = Some(it))
    }),
    ("opaque-ports", |s, v| {
        ports_or_names(v).map(|it| s.opaque_ports = it)
    }),
    ("outbound-port", |s, v| {
        port(v).map(|it| s.ports.outbound = it)
    }),
    ("pod-inbound-ports", |s, v| {
        ports(v).map(|it| s.inbound_ports = Some(it))
    }),
    ("proxy-additional-env", |s, v| {
        env_list(v).map(|it| s.additional_env = it)
    }),
    ("proxy-admin-shutdown", |s, v| {
        switch(v).map(|it| s.admin_shutdown = it)
    }),
    ("proxy-await", |s, v| switch(v).map(|it| s.await_ready = it)),
    ("proxy-cpu-limit", |s, v| {
        amount(v).map(|it| s.resources.cpu.limit = it)
    }),
    ("proxy-cpu-ratio-limit", |s, v| {
        let ratio: f64 = number(v)?;
        match ratio > 0.0 && ratio <= 1.0 {
            true => s.cpu_ratio_limit = Some(v.to_owned()),
            false => return Err(format!("{v} is not above 0 and at most 1")),
        }
        Ok(())
    }),
    ("proxy-cpu-request", |s, v| {
        amount(v).map(|it| s.resources.cpu.request = it)
    }),
    ("proxy-disable-inbound-protocol-detect-timeout", |s, v| {
        bool_value(v).map(|it| s.no_inbound_detect_timeout = it)
    }),
    ("proxy-disable-outbound-protocol-detect-timeout", |s, v| {
        bool_value(v).map(|it| s.no_outbound_detect_timeout = it)
    }),
    ("proxy-enable-native-sidecar", |s, v| {
        bool_value(v).map(|it| s.native_sidecar = it)
    }),
    ("proxy-ephemeral-storage-limit", |s, v| {
        amount(v).map(|it| s.resources.ephemeral_storage.limit = it)
    }),
    ("proxy-ephemeral-storage-request", |s, v| {
        amount(v).map(|it| s.resources.ephemeral_storage.request = it)
    }),
    ("proxy-gid", |s, v| number(v).map(|it| s.gid = Some(it))),
    ("proxy-image", |s, v| text(v).map(|it| s.image = it)),
    ("proxy-inbound-connect-timeout", |s, v| {
        duration(v).map(|it| s.inbound_connect_timeout = it)
    }),
    ("proxy-inbound-discovery-cache-unused-timeout", |s, v| {
        duration(v).map(|it| s.inbound_discovery_idle = it)
    }),
    ("proxy-log-format", |s, v| {
        one_of(v, &["plain", "json"]).map(|it| s.log_format = it)
    }),
    ("proxy-log-http-headers", |s, v| {
        choice(v, "insecure", "off").map(|it| s.log_headers = it)
    }),
    ("proxy-log-level", |s, v| text(v).map(|it| s.log_level = it)),
    ("proxy-memory-limit", |s, v| {
        amount(v).map(|it| s.resources.memory.limit = it)
    }),
    ("proxy-memory-request", |s, v| {
        amount(v).map(|it| s.resources.memory.request = it)
    }),
    ("proxy-metrics-hostname-labels", |s, v| {
        bool_value(v).map(|it| s.metrics_hostname_labels = it)
    }),
    ("proxy-outbound-connect-timeout", |s, v| {
        duration(v).map(|it| s.outbound_connect_timeout = it)
    }),
    ("proxy-outbound-discovery-cache-unused-timeout", |s, v| {
        duration(v).map(|it| s.outbound_discovery_idle = it)
    }),
    ("proxy-require-identity-inbound-ports", |s, v| {
        ports(v).map(|it| s.require_identity_ports = Some(it))
    }),
    ("proxy-uid", |s, v| match number(v)? {
        0 => Err("the proxy does not run as root".to_owned()),
        uid => {
            s.uid = uid;
            Ok(())
        }
    }),
    ("proxy-version", |s, v| text(v).map(|it| s.version = it)),
    ("proxy-wait-before-exit-seconds", |s, v| {
        number(v).map(|it: u64| s.wait_before_exit_seconds = Some(it).filter(|it| *it > 0))
    }),
    ("shutdown-grace-period", |s, v| {
        duration(v).map(|it| s.shutdown_grace_period = Some(it))
    }),
    ("skip-inbound-ports", |s, v| {
        ports(v).map(|it| s.skip_inbound_ports = it)
    }),
    ("skip-outbound-ports", |s, v| {
        ports(v).map(|it| s.skip_outbound_ports = it)
    }),
    ("skip-subnets", |s, v| {
        subnets(v).map(|it| s.skip_subnets = Some(it))
    }),
];
