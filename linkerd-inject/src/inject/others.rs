//! Objects that are no workloads: a message for those whose pods would have no sidecar, and for those that kubectl refuses.

use crate::{
    note::NoteKind,
    workload::{Object, version_of},
    yaml::{Node, NodeKind},
};

/// The message about an object that is no workload; `None` for ordinary objects, such as Services, and for empty documents.
pub(super) fn remark(object: &Object<'_>) -> Option<(NoteKind, String)> {
    let found = match &object.node.kind {
        NodeKind::Map { .. } => return remark_on_map(object),
        NodeKind::Scalar(_) if object.node.is_null() => return None,
        NodeKind::Scalar(_) => "text",
        NodeKind::List { .. } => "a list",
    };
    let reason = format!("{found} in place of an object: kubectl refuses it; left as it is");
    Some((NoteKind::Warning, reason))
}

fn remark_on_map(object: &Object<'_>) -> Option<(NoteKind, String)> {
    let missing = match (object.version, object.kind) {
        (Some(version), Some(kind)) => return remark_on_type(object.node, version, kind),
        (None, None) => "apiVersion and kind",
        (None, _) => "apiVersion",
        (_, None) => "kind",
    };
    let reason = format!("without {missing} it is not known whether it has pods: left as it is");
    Some((NoteKind::Warning, reason))
}

fn remark_on_type(node: &Node, version: &str, kind: &str) -> Option<(NoteKind, String)> {
    let known = version_of(kind).filter(|_| is_of_kubernetes(version));
    let reason = match known {
        Some((known, name)) => format!(
            "{kind} of {version} is not known; write apiVersion: {known} and kind: {name}. Left as it is"
        ),
        None if has_pods(node) => "no kind of workload with pods: left as it is".to_owned(),
        None => return None,
    };
    Some((NoteKind::Skipped, reason))
}

/// Whether a version belongs to Kubernetes itself: groups of extensions have a dot.
fn is_of_kubernetes(version: &str) -> bool {
    let (group, _) = version.rsplit_once('/').unwrap_or(("", version));
    !group.contains('.') || group.ends_with(".k8s.io")
}

/// Whether an object owns pods in the form of another kind of workload.
fn has_pods(node: &Node) -> bool {
    let templates: [&[&str]; 3] = [
        &["spec", "template", "spec", "containers"],
        &[
            "spec",
            "jobTemplate",
            "spec",
            "template",
            "spec",
            "containers",
        ],
        &["template", "spec", "containers"],
    ];
    let has_template = templates.iter().any(|path| node.at(path).is_some());
    has_template || node.at(&["spec", "podTemplate"]).is_some()
}
