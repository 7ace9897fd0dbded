//! The environment of the proxy's container.

use super::{
    Sidecar,
    names::{IDENTITY_DIR, PROXY, TOKEN_DIR, TOKEN_VOLUME},
};
use crate::yaml::Yaml;

/// All variables. A variable refers only to earlier ones.
pub(super) fn variables(sidecar: &Sidecar<'_>) -> Vec<Yaml> {
    let mut env = Env(Vec::new());
    pod(sidecar, &mut env);
    runtime(sidecar, &mut env);
    control_plane(sidecar, &mut env);
    listeners(sidecar, &mut env);
    connections(sidecar, &mut env);
    identity(sidecar, &mut env);
    env.with(&sidecar.settings.additional_env)
}

/// Facts about the pod, from which other variables are built.
fn pod(sidecar: &Sidecar<'_>, env: &mut Env) {
    env.field("_pod_name", "metadata.name");
    env.field("_pod_ns", "metadata.namespace");
    env.field("_pod_uid", "metadata.uid");
    env.field("_pod_ip", "status.podIP");
    env.field("_pod_nodeName", "spec.nodeName");
    env.value("_pod_containerName", PROXY);
    env.field("_pod_sa", "spec.serviceAccountName");
    env.value("_l5d_ns", &sidecar.mesh.control_plane_namespace);
    env.value("_l5d_trustdomain", &sidecar.mesh.trust_domain);
}

fn runtime(sidecar: &Sidecar<'_>, env: &mut Env) {
    let settings = sidecar.settings;
    env.proxy("CORES", "1");
    env.proxy("CORES_MIN", "1");
    if let Some(cores) = settings.cores_limit() {
        env.proxy("CORES_MAX", cores.to_string());
    }
    if let Some(ratio) = &settings.cpu_ratio_limit {
        env.proxy("CORES_MAX_RATIO", ratio);
    }
    // Spans of headers and requests would print the contents of requests.
    let headers = match settings.log_headers {
        true => "",
        false => ",[{headers}]=off,[{request}]=off",
    };
    env.proxy("LOG", format!("{}{headers}", settings.log_level));
    env.proxy("LOG_FORMAT", &settings.log_format);
    if let Some(format) = &settings.access_log {
        env.proxy("ACCESS_LOG", format);
    }
    env.proxy(
        "SHUTDOWN_ENDPOINT_ENABLED",
        settings.admin_shutdown.to_string(),
    );
    if let Some(period) = &settings.shutdown_grace_period {
        env.proxy("SHUTDOWN_GRACE_PERIOD", period);
    }
}

fn control_plane(sidecar: &Sidecar<'_>, env: &mut Env) {
    let settings = sidecar.settings;
    let destination = "linkerd-destination";
    env.controller(
        sidecar,
        "DESTINATION",
        "linkerd-dst-headless",
        8086,
        destination,
    );
    env.controller(sidecar, "POLICY", "linkerd-policy", 8090, destination);
    let context = r#"{"ns":"$(_pod_ns)", "nodeName":"$(_pod_nodeName)", "pod":"$(_pod_name)"}"#;
    env.proxy("DESTINATION_CONTEXT", context);
    env.proxy(
        "POLICY_WORKLOAD",
        r#"{"ns":"$(_pod_ns)", "pod":"$(_pod_name)"}"#,
    );
    env.proxy("INBOUND_DEFAULT_POLICY", &settings.default_inbound_policy);
    env.proxy("POLICY_CLUSTER_NETWORKS", CLUSTER_NETWORKS);
    env.proxy("DESTINATION_PROFILE_NETWORKS", CLUSTER_NETWORKS);
    let services = format!("svc.{}.", sidecar.mesh.cluster_domain);
    env.proxy(
        "DESTINATION_PROFILE_SUFFIXES",
        match settings.external_profiles {
            true => ".",
            false => &services,
        },
    );
    if settings.gateway {
        env.proxy("INBOUND_GATEWAY_SUFFIXES", &services);
    }
    if sidecar.ingress {
        env.proxy("INGRESS_MODE", "true");
    }
    env.proxy("CONTROL_STREAM_INITIAL_TIMEOUT", "3s");
    env.proxy("CONTROL_STREAM_IDLE_TIMEOUT", "5m");
    env.proxy("CONTROL_STREAM_LIFETIME", "1h");
}

fn listeners(sidecar: &Sidecar<'_>, env: &mut Env) {
    let ports = &sidecar.settings.ports;
    let any = if sidecar.mesh.ipv6 { "[::]" } else { "0.0.0.0" };
    let outbound = format!("127.0.0.1:{}", ports.outbound);
    let both = match sidecar.mesh.ipv6 {
        true => format!("{outbound},[::1]:{}", ports.outbound),
        false => outbound.clone(),
    };
    env.proxy("CONTROL_LISTEN_ADDR", format!("{any}:{}", ports.control));
    env.proxy("ADMIN_LISTEN_ADDR", format!("{any}:{}", ports.admin));
    env.proxy("OUTBOUND_LISTEN_ADDR", outbound);
    env.proxy("OUTBOUND_LISTEN_ADDRS", both);
    env.proxy("INBOUND_LISTEN_ADDR", format!("{any}:{}", ports.inbound));
    env.field("LINKERD2_PROXY_INBOUND_IPS", "status.podIPs");
    let declared: Vec<_> = sidecar.container_ports.iter().map(u16::to_string).collect();
    let inbound = sidecar.settings.inbound_ports.clone();
    env.proxy(
        "INBOUND_PORTS",
        inbound.unwrap_or_else(|| declared.join(",")),
    );
    env.proxy(
        "INBOUND_PORTS_DISABLE_PROTOCOL_DETECTION",
        &sidecar.opaque_ports,
    );
    if let Some(ports) = &sidecar.settings.require_identity_ports {
        env.proxy("INBOUND_PORTS_REQUIRE_IDENTITY", ports);
    }
}

fn connections(sidecar: &Sidecar<'_>, env: &mut Env) {
    let settings = sidecar.settings;
    env.proxy("INBOUND_CONNECT_TIMEOUT", &settings.inbound_connect_timeout);
    env.proxy(
        "OUTBOUND_CONNECT_TIMEOUT",
        &settings.outbound_connect_timeout,
    );
    env.proxy(
        "OUTBOUND_DISCOVERY_IDLE_TIMEOUT",
        &settings.outbound_discovery_idle,
    );
    env.proxy(
        "INBOUND_DISCOVERY_IDLE_TIMEOUT",
        &settings.inbound_discovery_idle,
    );
    if settings.no_inbound_detect_timeout {
        env.proxy("INBOUND_DETECT_TIMEOUT", "365d");
    }
    if settings.no_outbound_detect_timeout {
        env.proxy("OUTBOUND_DETECT_TIMEOUT", "365d");
    }
    env.proxy(
        "OUTBOUND_METRICS_HOSTNAME_LABELS",
        settings.metrics_hostname_labels.to_string(),
    );
    env.proxy("INBOUND_ACCEPT_KEEPALIVE", "10000ms");
    env.proxy("OUTBOUND_CONNECT_KEEPALIVE", "10000ms");
    env.proxy("INBOUND_ACCEPT_USER_TIMEOUT", "30s");
    env.proxy("OUTBOUND_CONNECT_USER_TIMEOUT", "30s");
    for direction in ["INBOUND", "OUTBOUND"] {
        let name = |what| format!("{direction}_SERVER_HTTP2_KEEP_ALIVE_{what}");
        env.proxy(&name("INTERVAL"), "10s");
        env.proxy(&name("TIMEOUT"), "3s");
    }
}

fn identity(sidecar: &Sidecar<'_>, env: &mut Env) {
    env.proxy("IDENTITY_DIR", IDENTITY_DIR);
    match &sidecar.mesh.trust_anchors {
        Some(anchors) => env.proxy("IDENTITY_TRUST_ANCHORS", anchors),
        None => {
            let key = Yaml::map([
                ("name", Yaml::str("linkerd-identity-trust-roots")),
                ("key", Yaml::str("ca-bundle.crt")),
            ]);
            let from = Yaml::map([("configMapKeyRef", key)]);
            env.from("LINKERD2_PROXY_IDENTITY_TRUST_ANCHORS", from);
        }
    }
    env.proxy("IDENTITY_TOKEN_FILE", format!("{TOKEN_DIR}/{TOKEN_VOLUME}"));
    let name = identity_name("$(_pod_sa).$(_pod_ns)");
    env.proxy("IDENTITY_LOCAL_NAME", name);
    env.controller(
        sidecar,
        "IDENTITY",
        "linkerd-identity-headless",
        8080,
        "linkerd-identity",
    );
}

/// The identity of a service account, which includes its namespace.
fn identity_name(account: &str) -> String {
    format!("{account}.serviceaccount.identity.$(_l5d_ns).$(_l5d_trustdomain)")
}

/// Variables in the order in which they are defined.
struct Env(Vec<Yaml>);

impl Env {
    fn value(&mut self, name: &str, value: impl Into<String>) {
        self.0.push(Yaml::map([
            ("name", Yaml::str(name)),
            ("value", Yaml::str(value)),
        ]));
    }

    /// A variable of the proxy, without its prefix.
    fn proxy(&mut self, name: &str, value: impl Into<String>) {
        self.value(&format!("LINKERD2_PROXY_{name}"), value);
    }

    fn from(&mut self, name: &str, source: Yaml) {
        self.0.push(Yaml::map([
            ("name", Yaml::str(name)),
            ("valueFrom", source),
        ]));
    }

    /// A field of the pod.
    fn field(&mut self, name: &str, path: &str) {
        let field = Yaml::map([("fieldPath", Yaml::str(path))]);
        self.from(name, Yaml::map([("fieldRef", field)]));
    }

    /// The address and the identity of a controller.
    fn controller(
        &mut self,
        sidecar: &Sidecar<'_>,
        name: &str,
        service: &str,
        port: u16,
        account: &str,
    ) {
        let namespace = &sidecar.mesh.control_plane_namespace;
        let domain = &sidecar.mesh.cluster_domain;
        let addr = format!("{service}.{namespace}.svc.{domain}.:{port}");
        self.proxy(&format!("{name}_SVC_ADDR"), addr);
        let identity = identity_name(&format!("{account}.{namespace}"));
        self.proxy(&format!("{name}_SVC_NAME"), identity);
    }

    /// Adds further variables, which replace variables of the same name.
    fn with(mut self, additional: &[Yaml]) -> Vec<Yaml> {
        let names: Vec<_> = additional.iter().filter_map(variable_name).collect();
        let is_replaced = |it: &Yaml| variable_name(it).is_some_and(|name| names.contains(&name));
        self.0.retain(|it| !is_replaced(it));
        self.0.extend(additional.iter().cloned());
        self.0
    }
}

fn variable_name(variable: &Yaml) -> Option<&str> {
    let Yaml::Map(fields) = variable else {
        return None;
    };
    fields.iter().find_map(|(key, value)| match value {
        Yaml::Str(name) if key == "name" => Some(name.as_str()),
        _ => None,
    })
}

/// The networks of pods and services.
const CLUSTER_NETWORKS: &str = "10.0.0.0/8,100.64.0.0/10,172.16.0.0/12,192.168.0.0/16,fd00::/8";
