//! The proxy's container.

use super::{
    Sidecar, env,
    names::{IDENTITY_DIR, IDENTITY_VOLUME, PROXY, TOKEN_DIR, TOKEN_VOLUME},
};
use crate::{settings::ProxySettings, yaml::Yaml};

/// The proxy's container.
pub(crate) fn proxy_container(sidecar: &Sidecar<'_>) -> Yaml {
    let settings = sidecar.settings;
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
        ("env", Yaml::List(env::variables(sidecar))),
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
    if let Some(lifecycle) = lifecycle(sidecar) {
        container.push("lifecycle", lifecycle);
    }
    let waits = settings.native_sidecar && settings.await_ready;
    if waits {
        // The pod's other containers start when this probe succeeds.
        let failures = ("failureThreshold", 120);
        container.push(
            "startupProbe",
            probe(sidecar, "/ready", &[("periodSeconds", 1), failures]),
        );
    }
    let after = |seconds| [("initialDelaySeconds", seconds), ("timeoutSeconds", 1)];
    container.push("readinessProbe", probe(sidecar, "/ready", &after(2)));
    container.push("livenessProbe", probe(sidecar, "/live", &after(10)));
    if let Some(resources) = resources(settings) {
        container.push("resources", resources);
    }
    container.push("securityContext", security_context(sidecar));
    container.push(
        "terminationMessagePolicy",
        Yaml::str("FallbackToLogsOnError"),
    );
    let mount =
        |name, path: &str| Yaml::map([("name", Yaml::str(name)), ("mountPath", Yaml::str(path))]);
    let mounts = vec![
        mount(IDENTITY_VOLUME, IDENTITY_DIR),
        mount(TOKEN_VOLUME, TOKEN_DIR),
    ];
    container.push("volumeMounts", Yaml::List(mounts));
    container
}

fn lifecycle(sidecar: &Sidecar<'_>) -> Option<Yaml> {
    let settings = sidecar.settings;
    let mut lifecycle = Yaml::Map(Vec::new());
    if settings.await_ready && !settings.native_sidecar {
        // Containers after this one start when the hook has ended.
        let port = format!("--port={}", settings.ports.admin);
        let command = ["/usr/lib/linkerd/linkerd-await", "--timeout=2m", &port];
        let exec = Yaml::map([("command", Yaml::strings(command))]);
        lifecycle.push("postStart", Yaml::map([("exec", exec)]));
    }
    if let Some(seconds) = settings.wait_before_exit_seconds {
        // Done by the kubelet, without a process in the container.
        let sleep = Yaml::map([("seconds", Yaml::plain(seconds))]);
        lifecycle.push("preStop", Yaml::map([("sleep", sleep)]));
    }
    (lifecycle != Yaml::Map(Vec::new())).then_some(lifecycle)
}

fn probe(sidecar: &Sidecar<'_>, path: &str, numbers: &[(&str, u32)]) -> Yaml {
    let port = Yaml::plain(sidecar.settings.ports.admin);
    let get = Yaml::map([("path", Yaml::str(path)), ("port", port)]);
    let mut probe = Yaml::map([("httpGet", get)]);
    for (name, number) in numbers {
        probe.push(name, Yaml::plain(number));
    }
    probe
}

fn security_context(sidecar: &Sidecar<'_>) -> Yaml {
    let drop = Yaml::map([("drop", Yaml::strings(["ALL"]))]);
    let mut context = Yaml::map([
        ("allowPrivilegeEscalation", Yaml::plain(false)),
        ("capabilities", drop),
        ("readOnlyRootFilesystem", Yaml::plain(true)),
        ("runAsNonRoot", Yaml::plain(true)),
        ("runAsUser", Yaml::plain(sidecar.settings.uid)),
    ]);
    if let Some(gid) = sidecar.settings.gid {
        context.push("runAsGroup", Yaml::plain(gid));
    }
    context.push("seccompProfile", default_seccomp());
    context
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

/// The seccomp profile of the container runtime.
pub(super) fn default_seccomp() -> Yaml {
    Yaml::map([("type", Yaml::str("RuntimeDefault"))])
}
