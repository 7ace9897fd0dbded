//! The container that redirects the pod's traffic before any other starts, or checks the redirection by a CNI plugin.

use super::{
    Sidecar,
    names::{INIT, LOCK_VOLUME, VALIDATOR},
    proxy::default_seccomp,
};
use crate::yaml::Yaml;

/// The init container of a sidecar.
pub(crate) fn redirecting_container(sidecar: &Sidecar<'_>) -> Yaml {
    match sidecar.mesh.cni {
        true => validator(sidecar),
        false => init(sidecar),
    }
}

fn init(sidecar: &Sidecar<'_>) -> Yaml {
    let settings = sidecar.settings;
    let image = settings.init_image.as_ref().unwrap_or(&settings.image);
    let version = settings.init_version.as_ref().unwrap_or(&settings.version);
    let mut args = Vec::new();
    let mut arg = |name: &str, value: String| args.extend([format!("--{name}"), value]);
    arg("firewall-bin-path", "iptables-nft".to_owned());
    arg("firewall-save-bin-path", "iptables-nft-save".to_owned());
    arg("incoming-proxy-port", settings.ports.inbound.to_string());
    arg("outgoing-proxy-port", settings.ports.outbound.to_string());
    arg("proxy-uid", settings.uid.to_string());
    if let Some(gid) = settings.gid {
        arg("proxy-gid", gid.to_string());
    }
    let own = format!("{},{}", settings.ports.control, settings.ports.admin);
    let inbound = [own.as_str(), &settings.skip_inbound_ports];
    let inbound: Vec<_> = inbound.into_iter().filter(|it| !it.is_empty()).collect();
    arg("inbound-ports-to-ignore", inbound.join(","));
    if !settings.skip_outbound_ports.is_empty() {
        arg(
            "outbound-ports-to-ignore",
            settings.skip_outbound_ports.clone(),
        );
    }
    if let Some(subnets) = &settings.skip_subnets {
        arg("subnets-to-ignore", subnets.clone());
    }
    if let Some(seconds) = settings.close_wait_seconds {
        arg("timeout-close-wait-secs", seconds.to_string());
    }
    if !sidecar.mesh.ipv6 {
        args.push("--ipv6=false".to_owned());
    }
    // Only root can change the kernel's close-wait setting.
    let is_root = settings.close_wait_seconds.is_some();
    let user = if is_root { 0 } else { NOBODY };
    let add = Yaml::strings(["NET_ADMIN", "NET_RAW"]);
    let drop = Yaml::strings(["ALL"]);
    // Without escalation, the capabilities of the program's file take effect as far as the container has them.
    let security = Yaml::map([
        ("allowPrivilegeEscalation", Yaml::plain(false)),
        ("capabilities", Yaml::map([("add", add), ("drop", drop)])),
        ("privileged", Yaml::plain(false)),
        ("readOnlyRootFilesystem", Yaml::plain(true)),
        ("runAsNonRoot", Yaml::plain(!is_root)),
        ("runAsUser", Yaml::plain(user)),
        ("runAsGroup", Yaml::plain(user)),
        ("seccompProfile", default_seccomp()),
    ]);
    let lock = Yaml::map([
        ("name", Yaml::str(LOCK_VOLUME)),
        ("mountPath", Yaml::str("/run")),
    ]);
    Yaml::map([
        ("name", Yaml::str(INIT)),
        ("image", Yaml::str(format!("{image}:{version}"))),
        ("imagePullPolicy", Yaml::str(&settings.image_pull_policy)),
        (
            "command",
            Yaml::strings(["/usr/lib/linkerd/linkerd2-proxy-init"]),
        ),
        ("args", Yaml::strings(args)),
        ("securityContext", security),
        (
            "terminationMessagePolicy",
            Yaml::str("FallbackToLogsOnError"),
        ),
        ("volumeMounts", Yaml::List(vec![lock])),
    ])
}

fn validator(sidecar: &Sidecar<'_>) -> Yaml {
    let settings = sidecar.settings;
    // An address without a server: only the proxy's port answers, if the connection is redirected to it.
    let (connect, any) = match sidecar.mesh.ipv6 {
        true => ("[fd00::1]:20001", "[::]"),
        false => ("1.1.1.1:20001", "0.0.0.0"),
    };
    let listen = format!("{any}:{}", settings.ports.outbound);
    let args = [
        "--connect-addr",
        connect,
        "--listen-addr",
        &listen,
        "--timeout",
        "10s",
    ];
    let security = Yaml::map([
        ("allowPrivilegeEscalation", Yaml::plain(false)),
        (
            "capabilities",
            Yaml::map([("drop", Yaml::strings(["ALL"]))]),
        ),
        ("readOnlyRootFilesystem", Yaml::plain(true)),
        ("runAsNonRoot", Yaml::plain(true)),
        ("runAsUser", Yaml::plain(NOBODY)),
        ("runAsGroup", Yaml::plain(NOBODY)),
        ("seccompProfile", default_seccomp()),
    ]);
    Yaml::map([
        ("name", Yaml::str(VALIDATOR)),
        (
            "image",
            Yaml::str(format!("{}:{}", settings.image, settings.version)),
        ),
        ("imagePullPolicy", Yaml::str(&settings.image_pull_policy)),
        (
            "command",
            Yaml::strings(["/usr/lib/linkerd/linkerd2-network-validator"]),
        ),
        ("args", Yaml::strings(args)),
        ("securityContext", security),
        (
            "terminationMessagePolicy",
            Yaml::str("FallbackToLogsOnError"),
        ),
    ])
}

const NOBODY: u32 = 65534;
