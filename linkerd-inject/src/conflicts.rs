//! Conflicts within a workload, or between a workload and the sidecar.

use crate::{
    annotations::setting,
    decision::istio,
    field::{integer, not_texts},
    ports::declared_ports,
    problem::Problem,
    settings::{ISTIO_SETTINGS, ProxySettings},
    sidecar::VOLUMES,
    workload::Workload,
    yaml::Node,
};

/// All conflicts of a workload that asks for a sidecar.
pub(crate) fn conflicts(
    workload: &Workload<'_>,
    annotations: &[(String, String)],
    settings: &ProxySettings,
) -> Vec<Problem> {
    let mut problems = annotated(workload, annotations);
    let metadata = |kind| workload.template.and_then(|it| it.at(&["metadata", kind]));
    problems.extend(not_texts(metadata("labels")));
    problems.extend(not_texts(metadata("annotations")));
    let line = workload.object.line;
    problems.extend(
        settings
            .check()
            .err()
            .map(|error| Problem::new(line, error)),
    );
    if istio(workload) == Some("true") {
        let reason = "sidecar.istio.io/inject asks for the sidecar of another mesh; remove it, or add linkerd.io/inject: disabled";
        problems.push(Problem::new(line, reason));
    }
    problems.extend(users(workload, settings));
    problems.extend(ports(workload, settings));
    let volumes = workload.spec(&["volumes"]).map_or(&[][..], Node::items);
    for name in volumes.iter().filter_map(|volume| volume.get("name")) {
        if name.text().is_some_and(|text| VOLUMES.contains(&text)) {
            let reason = "the sidecar has a volume of this name; rename it";
            problems.push(Problem::new(name.line, reason));
        }
    }
    problems
}

/// Settings that the annotations of both meshes set to different values.
fn annotated(workload: &Workload<'_>, annotations: &[(String, String)]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (istio, name) in ISTIO_SETTINGS {
        let Some(theirs) = workload.annotation(istio) else {
            continue;
        };
        let ours = annotations
            .iter()
            .find(|(key, _)| setting(key) == Some(name));
        if let Some((key, value)) = ours.filter(|(_, value)| value != theirs) {
            let reason = format!("{istio} is {theirs:?}, and {key} is {value:?}; remove one");
            problems.push(Problem::new(workload.object.line, reason));
        }
    }
    problems
}

/// Users of the application that are the proxy's. Init containers that end may have it: they run without redirection, as some
/// are meant to.
fn users(workload: &Workload<'_>, settings: &ProxySettings) -> Vec<Problem> {
    let user = ["securityContext", "runAsUser"];
    let of_pod = workload.spec(&user).into_iter();
    let of_containers = workload.running().filter_map(|(_, it)| it.at(&user));
    let nodes = of_pod.chain(of_containers).filter(|node| !node.is_null());
    let own = i64::from(settings.uid);
    let problem = |node: &Node| match integer("runAsUser", node, 0..=i64::from(i32::MAX)) {
        Ok(user) if user == own => {
            let reason = format!(
                "runAsUser {user} is the proxy's: its traffic would not be redirected; change it, or proxy-uid"
            );
            Some(Problem::new(node.line, reason))
        }
        Ok(_) => None,
        Err(problem) => Some(problem),
    };
    nodes.filter_map(problem).collect()
}

/// Ports of the application that the proxy would use.
fn ports(workload: &Workload<'_>, settings: &ProxySettings) -> Vec<Problem> {
    let own = &settings.ports;
    let own = [own.inbound, own.outbound, own.admin, own.control];
    let (declared, mut problems) = declared_ports(workload);
    let taken = declared.iter().filter(|port| own.contains(&port.number));
    problems.extend(taken.map(|port| {
        let number = port.number;
        let reason = format!("containerPort {number} is one of the proxy's; change one of them");
        Problem::new(port.line, reason)
    }));
    problems
}
