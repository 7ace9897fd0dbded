//! The changes that add the sidecar to a workload.

use super::{effective::EffectiveSettings, owner::owner_label};
use crate::{
    annotations::{
        CONTROL_PLANE_NS, CREATED_BY, INHERITED, PROXY_VERSION, TRUST_ROOT, WORKLOAD_NS,
    },
    options::InjectOptions,
    ports::{DeclaredPort, declared_ports},
    problem::Problem,
    settings::{ProxySettings, port_range},
    sidecar::{Sidecar, proxy_container, redirecting_container, volumes},
    workload::Workload,
    yaml::{Change, Yaml},
};
use aws_lc_rs::digest::{SHA256, digest};

type Fields = Vec<(String, Yaml)>;

/// All changes of a workload.
pub(super) fn additions(
    workload: &Workload<'_>,
    effective: &EffectiveSettings,
    options: &InjectOptions,
    namespace: Option<&str>,
    ingress: bool,
) -> Result<Vec<Change>, Problem> {
    let settings = &effective.settings;
    // Values that are no ports have been refused as conflicts.
    let (declared, _) = declared_ports(workload);
    let mut container_ports = Vec::new();
    for port in &declared {
        if !container_ports.contains(&port.number) {
            container_ports.push(port.number);
        }
    }
    let sidecar = Sidecar {
        mesh: &options.mesh,
        settings,
        ingress,
        container_ports,
        opaque_ports: opaque_ports(workload, &declared, settings)?,
    };
    let mut changes = metadata(
        workload,
        labels(workload, options, namespace),
        annotations(effective, options),
    );
    changes.extend(spec(workload, &sidecar));
    Ok(changes)
}

fn labels(workload: &Workload<'_>, options: &InjectOptions, namespace: Option<&str>) -> Fields {
    let control_plane = &options.mesh.control_plane_namespace;
    let mut labels = vec![(CONTROL_PLANE_NS.to_owned(), Yaml::str(control_plane))];
    if let Ok(Some((key, name))) = owner_label(workload) {
        labels.push((key, Yaml::str(name)));
    }
    // A manifest without a namespace, which kubectl will set, gets no label with the namespace.
    if let Some(namespace) = namespace {
        labels.push((WORKLOAD_NS.to_owned(), Yaml::str(namespace)));
    }
    labels
}

fn annotations(effective: &EffectiveSettings, options: &InjectOptions) -> Fields {
    let created_by = format!("linkerd-proxy/inject {}", env!("CARGO_PKG_VERSION"));
    let mut annotations = vec![
        (CREATED_BY.to_owned(), Yaml::str(created_by)),
        (
            PROXY_VERSION.to_owned(),
            Yaml::str(&effective.settings.version),
        ),
    ];
    if let Some(anchors) = &options.mesh.trust_anchors {
        let hash = digest(&SHA256, anchors.as_bytes());
        let hex: String = hash
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        annotations.push((TRUST_ROOT.to_owned(), Yaml::str(hex)));
    }
    if !effective.inherited.is_empty() {
        let names: Vec<_> = effective
            .inherited
            .iter()
            .map(|(key, _)| key.as_str())
            .collect();
        annotations.push((INHERITED.to_owned(), Yaml::str(names.join(","))));
    }
    let inherited = effective.inherited.iter();
    annotations.extend(inherited.map(|(key, value)| (key.clone(), Yaml::str(value))));
    annotations
}

/// Labels and annotations, except those that the pods already have.
fn metadata(workload: &Workload<'_>, labels: Fields, annotations: Fields) -> Vec<Change> {
    let node = workload
        .template
        .and_then(|template| template.get("metadata"));
    let mut changes = Vec::new();
    let mut new = Vec::new();
    for (kind, fields) in [("labels", labels), ("annotations", annotations)] {
        let is_new = |(key, _): &(String, Yaml)| {
            workload
                .template
                .and_then(|it| it.at(&["metadata", kind, key]))
                .is_none()
        };
        let fields: Fields = fields.into_iter().filter(is_new).collect();
        let present = node.and_then(|node| node.get(kind));
        match present {
            _ if fields.is_empty() => {}
            Some(_) => {
                let path = workload.path_to(&["metadata", kind]);
                changes.push(Change::AddFields(path, fields));
            }
            None => new.push((kind.to_owned(), Yaml::Map(fields))),
        }
    }
    if !new.is_empty() {
        changes.push(match node {
            Some(_) => Change::AddFields(workload.path_to(&["metadata"]), new),
            None => {
                let fields = vec![("metadata".to_owned(), Yaml::Map(new))];
                Change::AddFields(workload.path.clone(), fields)
            }
        });
    }
    changes
}

/// Containers and volumes.
fn spec(workload: &Workload<'_>, sidecar: &Sidecar<'_>) -> Vec<Change> {
    let settings = sidecar.settings;
    let mut init = vec![redirecting_container(sidecar)];
    let mut changes = Vec::new();
    let containers = workload.path_to(&["spec", "containers"]);
    let proxy = proxy_container(sidecar);
    if settings.native_sidecar {
        init.push(proxy);
    } else if settings.await_ready {
        // Containers start in their order, and the next one waits for this one's hook.
        changes.push(Change::Prepend(containers, vec![proxy]));
    } else {
        changes.push(Change::Append(containers, vec![proxy]));
    }
    let mut new = Vec::new();
    let mut add =
        |key: &str, items: Vec<Yaml>, change: fn(_, _) -> Change| match workload.spec(&[key]) {
            Some(_) => changes.push(change(workload.path_to(&["spec", key]), items)),
            None => new.push((key.to_owned(), Yaml::List(items))),
        };
    add("initContainers", init, Change::Prepend);
    add("volumes", volumes(sidecar), Change::Append);
    if !new.is_empty() {
        changes.push(Change::AddFields(workload.path_to(&["spec"]), new));
    }
    changes
}

/// The opaque ports as numbers.
fn opaque_ports(
    workload: &Workload<'_>,
    declared: &[DeclaredPort<'_>],
    settings: &ProxySettings,
) -> Result<String, Problem> {
    let of_name = |name: &str| {
        let port = declared.iter().find(|port| port.name == Some(name))?;
        Some(port.number.to_string())
    };
    let mut numbers = Vec::new();
    let items = settings
        .opaque_ports
        .split(',')
        .filter(|item| !item.is_empty());
    for item in items {
        let number = match port_range(item) {
            Ok(_) => item.to_owned(),
            Err(_) => of_name(item).ok_or_else(|| {
                let line = workload.object.line;
                Problem::new(
                    line,
                    format!("opaque-ports: no container has a port {item}"),
                )
            })?,
        };
        numbers.push(number);
    }
    Ok(numbers.join(","))
}
