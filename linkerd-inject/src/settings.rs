//! The settings of one sidecar: defaults of an installation, options, and annotations of the workload.

mod annotations;
mod env_list;
mod grammar;

pub use self::annotations::CONFIG_PREFIX;
pub(crate) use self::annotations::{ISTIO_SETTINGS, set, setting_names};
pub(crate) use self::grammar::port_range;

use crate::yaml::Yaml;

/// The settings of a sidecar. Each has a name, used by annotations and options.
#[derive(Clone, Debug)]
pub struct ProxySettings {
    pub(crate) image: String,
    pub(crate) version: String,
    pub(crate) init_image: Option<String>,
    pub(crate) init_version: Option<String>,
    pub(crate) image_pull_policy: String,
    pub(crate) resources: Resources,
    pub(crate) uid: u32,
    pub(crate) gid: Option<u32>,
    pub(crate) log_level: String,
    pub(crate) log_format: String,
    pub(crate) log_headers: bool,
    pub(crate) await_ready: bool,
    pub(crate) native_sidecar: bool,
    pub(crate) require_identity_ports: Option<String>,
    pub(crate) default_inbound_policy: String,
    pub(crate) close_wait_seconds: Option<u64>,
    pub(crate) gateway: bool,
    pub(crate) external_profiles: bool,
    pub(crate) access_log: Option<String>,
    pub(crate) shutdown_grace_period: Option<String>,
    pub(crate) wait_before_exit_seconds: Option<u64>,
    pub(crate) inbound_ports: Option<String>,
    pub(crate) inbound_connect_timeout: String,
    pub(crate) outbound_connect_timeout: String,
    pub(crate) inbound_discovery_idle: String,
    pub(crate) outbound_discovery_idle: String,
    pub(crate) no_inbound_detect_timeout: bool,
    pub(crate) no_outbound_detect_timeout: bool,
    pub(crate) metrics_hostname_labels: bool,
    pub(crate) cpu_ratio_limit: Option<String>,
    pub(crate) ports: ProxyPorts,
    pub(crate) admin_shutdown: bool,
    pub(crate) skip_inbound_ports: String,
    pub(crate) skip_outbound_ports: String,
    pub(crate) skip_subnets: Option<String>,
    pub(crate) opaque_ports: String,
    pub(crate) debug_sidecar: bool,
    pub(crate) additional_env: Vec<Yaml>,
}

/// Requests and limits, as quantities of Kubernetes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resources {
    pub(crate) cpu: Bounds,
    pub(crate) memory: Bounds,
    pub(crate) ephemeral_storage: Bounds,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Bounds {
    pub(crate) request: Option<String>,
    pub(crate) limit: Option<String>,
}

/// The ports on which the proxy listens.
#[derive(Clone, Debug)]
pub(crate) struct ProxyPorts {
    pub(crate) inbound: u16,
    pub(crate) outbound: u16,
    pub(crate) admin: u16,
    pub(crate) control: u16,
}

impl ProxySettings {
    /// Changes the setting of a name, such as `proxy-log-level`. The error names the allowed values.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match set(self, name, value) {
            Some(result) => result,
            None => Err(format!("there is no setting {name:?}")),
        }
    }

    /// Checks whether the values are consistent.
    pub(crate) fn check(&self) -> Result<(), String> {
        let ports = [
            ("inbound-port", self.ports.inbound),
            ("outbound-port", self.ports.outbound),
            ("admin-port", self.ports.admin),
            ("control-port", self.ports.control),
        ];
        for (n, (name, port)) in ports.iter().enumerate() {
            if let Some((other, _)) = ports[..n].iter().find(|(_, other)| other == port) {
                return Err(format!("{name} and {other} are both {port}"));
            }
        }
        let Resources {
            cpu,
            memory,
            ephemeral_storage,
        } = &self.resources;
        let bounds = [
            ("cpu", cpu),
            ("memory", memory),
            ("ephemeral-storage", ephemeral_storage),
        ];
        for (name, Bounds { request, limit }) in bounds {
            if let (Some(request), Some(limit)) = (request, limit)
                && grammar::quantity(request)? > grammar::quantity(limit)?
            {
                let message = format!(
                    "proxy-{name}-request {request} is more than proxy-{name}-limit {limit}"
                );
                return Err(message);
            }
        }
        Ok(())
    }

    /// The limit of CPU, in whole cores.
    pub(crate) fn cores_limit(&self) -> Option<u64> {
        let limit = self.resources.cpu.limit.as_deref()?;
        let cores = grammar::quantity(limit).ok()?.ceil();
        Some((cores as u64).max(1))
    }
}

/// The image that a build makes; no registry has it.
pub(crate) const LOCAL_IMAGE: &str = "linkerd-proxy";

impl Default for ProxySettings {
    /// The defaults of a Linkerd installation.
    fn default() -> Self {
        Self {
            image: LOCAL_IMAGE.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            init_image: None,
            init_version: None,
            image_pull_policy: "IfNotPresent".to_owned(),
            resources: Resources::default(),
            uid: 2102,
            gid: None,
            log_level: "warn,linkerd=info,hickory=error".to_owned(),
            log_format: "plain".to_owned(),
            log_headers: false,
            await_ready: true,
            native_sidecar: true,
            require_identity_ports: None,
            default_inbound_policy: "all-unauthenticated".to_owned(),
            close_wait_seconds: None,
            gateway: false,
            external_profiles: false,
            access_log: None,
            shutdown_grace_period: None,
            wait_before_exit_seconds: None,
            inbound_ports: None,
            inbound_connect_timeout: "100ms".to_owned(),
            outbound_connect_timeout: "1000ms".to_owned(),
            inbound_discovery_idle: "90s".to_owned(),
            outbound_discovery_idle: "5s".to_owned(),
            no_inbound_detect_timeout: false,
            no_outbound_detect_timeout: false,
            metrics_hostname_labels: false,
            cpu_ratio_limit: None,
            ports: ProxyPorts {
                inbound: 4143,
                outbound: 4140,
                admin: 4191,
                control: 4190,
            },
            admin_shutdown: false,
            skip_inbound_ports: "4567,4568".to_owned(),
            skip_outbound_ports: "4567,4568".to_owned(),
            skip_subnets: None,
            opaque_ports: "25,587,3306,4444,5432,6379,9300,11211".to_owned(),
            debug_sidecar: false,
            additional_env: Vec::new(),
        }
    }
}
