//! The decision whether a workload gets a sidecar.

use crate::{
    annotations::{INJECT, ISTIO_INJECT},
    field::{boolean, not_a_text},
    problem::Problem,
    sidecar::{INIT, PROXY, VALIDATOR},
    workload::Workload,
    yaml::Node,
};

/// The decision for workloads without an annotation, of their own or of their namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InjectMode {
    /// Workloads get a sidecar.
    #[default]
    Enabled,
    /// Workloads get a sidecar whose requests name their service by `l5d-dst-override`.
    Ingress,
    /// Workloads get no sidecar, as with the injector of a cluster.
    Annotated,
}

/// The decision for one workload.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Inject { ingress: bool },
    Skip(String),
}

/// Decides by the annotation of the pod, by that of its namespace, or else by the mode. A pod that cannot have a sidecar gets none.
pub(crate) fn decide(
    workload: &Workload<'_>,
    namespace: &[(String, String)],
    mode: InjectMode,
) -> Result<Decision, Problem> {
    let deciding = [
        ("annotations", INJECT),
        ("labels", ISTIO_INJECT),
        ("annotations", ISTIO_INJECT),
    ];
    for (kind, name) in deciding {
        let template = workload.template;
        let value = template.and_then(|it| it.at(&["metadata", kind, name]));
        if let Some(problem) = value.and_then(|value| not_a_text(name, value)) {
            return Err(problem);
        }
    }
    let asked = asked(workload, namespace, mode);
    if matches!(asked, Decision::Skip(_)) {
        // An explicit annotation is the better explanation.
        return Ok(asked);
    }
    let reason = match never(workload)? {
        None => no_token(workload)?,
        reason => reason,
    };
    Ok(reason.map_or(asked, Decision::Skip))
}

/// The decision by annotations, without regard to the pod.
fn asked(workload: &Workload<'_>, namespace: &[(String, String)], mode: InjectMode) -> Decision {
    let of_namespace = namespace.iter().find(|(key, _)| key == INJECT);
    let of_namespace = of_namespace.map(|(_, value)| value.as_str());
    let skip = |reason: String| Decision::Skip(reason);
    match (workload.annotation(INJECT), of_namespace) {
        (Some("enabled"), _) => Decision::Inject { ingress: false },
        (Some("ingress"), _) => Decision::Inject { ingress: true },
        (Some("disabled"), _) => skip(format!("its annotation {INJECT} is disabled")),
        (Some(other), _) => skip(unknown("its", other)),
        (None, _) if istio(workload) == Some("false") => skip(format!("{ISTIO_INJECT} is false")),
        (None, Some("enabled")) => Decision::Inject { ingress: false },
        (None, Some("ingress")) => Decision::Inject { ingress: true },
        (None, Some("disabled")) => {
            skip(format!("its namespace's annotation {INJECT} is disabled"))
        }
        (None, Some(other)) => skip(unknown("its namespace's", other)),
        (None, None) => match mode {
            InjectMode::Enabled => Decision::Inject { ingress: false },
            InjectMode::Ingress => Decision::Inject { ingress: true },
            InjectMode::Annotated => skip(format!("neither it nor its namespace has {INJECT}")),
        },
    }
}

/// The value of Istio's label, or of the older annotation.
pub(crate) fn istio<'w>(workload: &'w Workload<'_>) -> Option<&'w str> {
    let label = workload.label_value(ISTIO_INJECT);
    label.or_else(|| workload.annotation(ISTIO_INJECT))
}

/// The reason why a pod cannot have a sidecar, or has one already.
fn never(workload: &Workload<'_>) -> Result<Option<String>, Problem> {
    for label in [
        "linkerd.io/control-plane-component",
        "linkerd.io/cni-resource",
    ] {
        if workload.label_value(label).is_some() {
            return Ok(Some(format!("it is part of the control plane ({label})")));
        }
    }
    if switch(workload, "hostNetwork")? == Some(true) {
        let reason = "hostNetwork: the rules of redirection would be the node's";
        return Ok(Some(reason.to_owned()));
    }
    if is_windows(workload) {
        let reason = "its pods run on Windows: there are no rules of redirection";
        return Ok(Some(reason.to_owned()));
    }
    let init = workload.containers("initContainers");
    let names: Vec<_> = init.chain(workload.containers("containers")).collect();
    let has = |wanted: &[&str]| {
        let found = names.iter().find(|(name, _)| wanted.contains(name));
        found.map(|(name, _)| *name)
    };
    if let Some(name) = has(&[PROXY, INIT, VALIDATOR]) {
        return Ok(Some(format!(
            "already injected: it has a container {name}; to change its version or settings, remove the sidecar first: linkerd-proxy \
             uninject FILE | linkerd-proxy inject -"
        )));
    }
    let name = has(OTHER_MESHES);
    Ok(name.map(|name| format!("it has the sidecar of another mesh, {name}")))
}

/// The reason why a pod cannot get an identity: it has no token of its service account.
fn no_token(workload: &Workload<'_>) -> Result<Option<String>, Problem> {
    if switch(workload, "automountServiceAccountToken")? != Some(false) {
        return Ok(None);
    }
    let volumes = workload.spec(&["volumes"]).map_or(&[][..], Node::items);
    let mut sources = volumes
        .iter()
        .filter_map(|volume| volume.at(&["projected", "sources"]))
        .flat_map(Node::items);
    let is_projected = sources.any(|source| source.get("serviceAccountToken").is_some());
    let reason = "automountServiceAccountToken is false, and no volume projects a token";
    Ok((!is_projected).then(|| reason.to_owned()))
}

fn is_windows(workload: &Workload<'_>) -> bool {
    let names = [&["os", "name"][..], &["nodeSelector", "kubernetes.io/os"]];
    let mut names = names.iter().filter_map(|path| workload.spec(path));
    names.any(|name| name.is_text("windows"))
}

/// A boolean of the pods' spec; `None` if it is not set.
fn switch(workload: &Workload<'_>, name: &str) -> Result<Option<bool>, Problem> {
    let node = workload.spec(&[name]);
    node.map_or(Ok(None), |node| boolean(name, node))
}

fn unknown(whose: &str, value: &str) -> String {
    format!("{whose} annotation {INJECT} is {value:?}, none of enabled, ingress and disabled")
}

/// Containers of other meshes. Two proxies would redirect each other's connections.
const OTHER_MESHES: &[&str] = &[
    "istio-proxy",
    "istio-init",
    "istio-validation",
    "consul-dataplane",
    "consul-connect-envoy-sidecar",
    "kuma-sidecar",
    "kuma-init",
];
