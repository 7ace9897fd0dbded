//! The parts that a pod gets: containers and volumes.

mod env;
mod init;

pub(crate) use self::init::redirecting_container;

use crate::{settings::ProxySettings, yaml::Yaml};

/// The mesh that a pod joins.
#[derive(Clone, Debug)]
pub struct MeshInstallation {
    /// The namespace of the control plane.
    pub control_plane_namespace: String,
    /// The domain of identities.
    pub trust_domain: String,
    /// The domain of the cluster's services.
    pub cluster_domain: String,
    /// Certificates in PEM; else those of the ConfigMap `linkerd-identity-trust-roots` in the pod's namespace.
    pub trust_anchors: Option<String>,
    /// A CNI plugin redirects traffic, so that the init container only checks it.
    pub cni: bool,
    /// Whether pods have IPv6 addresses.
    pub ipv6: bool,
}

impl Default for MeshInstallation {
    fn default() -> Self {
        Self {
            control_plane_namespace: "linkerd".to_owned(),
            trust_domain: "cluster.local".to_owned(),
            cluster_domain: "cluster.local".to_owned(),
            trust_anchors: None,
            cni: false,
            ipv6: false,
        }
    }
}

/// The input of a sidecar: of the mesh, of the settings and of the pod.
pub(crate) struct Sidecar<'a> {
    pub(crate) mesh: &'a MeshInstallation,
    pub(crate) settings: &'a ProxySettings,
    /// Requests name their service, as in an ingress controller's pod.
    pub(crate) ingress: bool,
    /// The ports of the pod's containers, in their order.
    pub(crate) container_ports: Vec<u16>,
    /// The opaque ports, with names resolved.
    pub(crate) opaque_ports: String,
}

impl Sidecar<'_> {
    /// The proxy's container.
    pub(crate) fn container(&self) -> Yaml {
        let settings = self.settings;
        let port = |name, port: u16| {
            Yaml::map([
                ("containerPort", Yaml::plain(port)),
                ("name", Yaml::str(name)),
                ("protocol", Yaml::str("TCP")),
            ])
        };
        let mut container = Yaml::map([
            ("name", Yaml::str(PROXY)),
            (
                "image",
                Yaml::str(format!("{}:{}", settings.image, settings.version)),
            ),
            ("imagePullPolicy", Yaml::str(&settings.image_pull_policy)),
            ("env", Yaml::List(env::variables(self))),
            (
                "ports",
                Yaml::List(vec![
                    port("linkerd-proxy", settings.ports.inbound),
                    port("linkerd-admin", settings.ports.admin),
                ]),
            ),
        ]);
        if settings.native_sidecar {
            container.push("restartPolicy", Yaml::str("Always"));
        }
        if let Some(lifecycle) = self.lifecycle() {
            container.push("lifecycle", lifecycle);
        }
        let waits = settings.native_sidecar && settings.await_ready;
        if waits {
            // The pod's other containers start when this probe succeeds.
            let failures = ("failureThreshold", 120);
            container.push(
                "startupProbe",
                self.probe("/ready", &[("periodSeconds", 1), failures]),
            );
        }
        let after = |seconds| [("initialDelaySeconds", seconds), ("timeoutSeconds", 1)];
        container.push("readinessProbe", self.probe("/ready", &after(2)));
        container.push("livenessProbe", self.probe("/live", &after(10)));
        if let Some(resources) = resources(settings) {
            container.push("resources", resources);
        }
        container.push("securityContext", self.security_context());
        container.push(
            "terminationMessagePolicy",
            Yaml::str("FallbackToLogsOnError"),
        );
        let mount = |name, path: &str| {
            Yaml::map([("name", Yaml::str(name)), ("mountPath", Yaml::str(path))])
        };
        let mounts = vec![
            mount(IDENTITY_VOLUME, IDENTITY_DIR),
            mount(TOKEN_VOLUME, TOKEN_DIR),
        ];
        container.push("volumeMounts", Yaml::List(mounts));
        container
    }

    /// The volumes of the containers.
    pub(crate) fn volumes(&self) -> Vec<Yaml> {
        let mut volumes = Vec::new();
        if !self.mesh.cni {
            volumes.push(Yaml::map([
                ("name", Yaml::str(LOCK_VOLUME)),
                ("emptyDir", Yaml::Map(Vec::new())),
            ]));
        }
        volumes.push(Yaml::map([
            ("name", Yaml::str(IDENTITY_VOLUME)),
            ("emptyDir", Yaml::map([("medium", Yaml::str("Memory"))])),
        ]));
        let token = Yaml::map([
            ("path", Yaml::str(TOKEN_VOLUME)),
            ("expirationSeconds", Yaml::plain(86400)),
            ("audience", Yaml::str("identity.l5d.io")),
        ]);
        let sources = Yaml::List(vec![Yaml::map([("serviceAccountToken", token)])]);
        volumes.push(Yaml::map([
            ("name", Yaml::str(TOKEN_VOLUME)),
            ("projected", Yaml::map([("sources", sources)])),
        ]));
        volumes
    }

    fn lifecycle(&self) -> Option<Yaml> {
        let settings = self.settings;
        let mut lifecycle = Yaml::Map(Vec::new());
        if settings.await_ready && !settings.native_sidecar {
            // Containers after this one start when the hook has ended.
            let port = format!("--port={}", settings.ports.admin);
            let command = ["/usr/lib/linkerd/linkerd-await", "--timeout=2m", &port];
            let exec = Yaml::map([("command", Yaml::strings(command))]);
            lifecycle.push("postStart", Yaml::map([("exec", exec)]));
        }
        if let Some(seconds) = settings.wait_before_exit_seconds {
            // By the kubelet, as the image has no program that sleeps.
            let sleep = Yaml::map([("seconds", Yaml::plain(seconds))]);
            lifecycle.push("preStop", Yaml::map([("sleep", sleep)]));
        }
        (lifecycle != Yaml::Map(Vec::new())).then_some(lifecycle)
    }

    fn probe(&self, path: &str, numbers: &[(&str, u32)]) -> Yaml {
        let port = Yaml::plain(self.settings.ports.admin);
        let get = Yaml::map([("path", Yaml::str(path)), ("port", port)]);
        let mut probe = Yaml::map([("httpGet", get)]);
        for (name, number) in numbers {
            probe.push(name, Yaml::plain(number));
        }
        probe
    }

    fn security_context(&self) -> Yaml {
        let drop = Yaml::map([("drop", Yaml::strings(["ALL"]))]);
        let mut context = Yaml::map([
            ("allowPrivilegeEscalation", Yaml::plain(false)),
            ("capabilities", drop),
            ("readOnlyRootFilesystem", Yaml::plain(true)),
            ("runAsNonRoot", Yaml::plain(true)),
            ("runAsUser", Yaml::plain(self.settings.uid)),
        ]);
        if let Some(gid) = self.settings.gid {
            context.push("runAsGroup", Yaml::plain(gid));
        }
        context.push("seccompProfile", default_seccomp());
        context
    }
}

fn resources(settings: &ProxySettings) -> Option<Yaml> {
    let all = &settings.resources;
    let kinds = [
        ("cpu", &all.cpu),
        ("memory", &all.memory),
        ("ephemeral-storage", &all.ephemeral_storage),
    ];
    let (mut limits, mut requests) = (Yaml::Map(Vec::new()), Yaml::Map(Vec::new()));
    for (name, bounds) in kinds {
        if let Some(limit) = &bounds.limit {
            limits.push(name, Yaml::str(limit));
        }
        if let Some(request) = &bounds.request {
            requests.push(name, Yaml::str(request));
        }
    }
    let parts = [("limits", limits), ("requests", requests)];
    let parts = parts
        .into_iter()
        .filter(|(_, part)| *part != Yaml::Map(Vec::new()));
    let parts: Vec<_> = parts.map(|(name, part)| (name.to_owned(), part)).collect();
    (!parts.is_empty()).then_some(Yaml::Map(parts))
}

fn default_seccomp() -> Yaml {
    Yaml::map([("type", Yaml::str("RuntimeDefault"))])
}

/// The name of the proxy's container.
pub(crate) const PROXY: &str = "linkerd-proxy";

/// The names of the containers that check or redirect traffic.
pub(crate) const INIT: &str = "linkerd-init";
pub(crate) const VALIDATOR: &str = "linkerd-network-validator";

/// The names of the volumes.
pub(crate) const VOLUMES: &[&str] = &[LOCK_VOLUME, IDENTITY_VOLUME, TOKEN_VOLUME];

const LOCK_VOLUME: &str = "linkerd-proxy-init-xtables-lock";
const IDENTITY_VOLUME: &str = "linkerd-identity-end-entity";
const TOKEN_VOLUME: &str = "linkerd-identity-token";
const IDENTITY_DIR: &str = "/var/run/linkerd/identity/end-entity";
const TOKEN_DIR: &str = "/var/run/secrets/tokens";
