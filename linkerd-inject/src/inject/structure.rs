//! The form that a workload must have for the sidecar to be inserted.

use crate::{
    problem::Problem,
    workload::Workload,
    yaml::{Node, NodeKind, PathStep, merged},
};

/// The first obstacle in a workload's form. Only lists and maps to which the sidecar is added matter: a native sidecar
/// leaves the list of containers as it is.
pub(super) fn structure(workload: &Workload<'_>, is_native: bool) -> Option<Problem> {
    let line = workload.object.line;
    let Some(template) = workload.template else {
        return Some(Problem::new(line, "it has no template of its pods"));
    };
    let Some(spec) = template.get("spec") else {
        return Some(Problem::new(template.line, "its pods have no spec"));
    };
    let containers = spec.get("containers").map_or(&[][..], Node::items);
    if containers.is_empty() {
        return Some(Problem::new(spec.line, "its pods have no containers"));
    }
    let keys = workload.path.iter().filter_map(|step| match step {
        PathStep::Key(key) if key != "items" => Some(key.as_str()),
        _ => None,
    });
    let mut node = workload.object;
    let mut found = form(node, &[]);
    for key in keys {
        found = found.or_else(|| form(node, &[key]));
        node = node.get(key)?;
    }
    let metadata = template.get("metadata");
    let lists = match is_native {
        true => &["initContainers", "volumes"][..],
        false => &["initContainers", "volumes", "containers"],
    };
    found
        .or_else(|| form(template, &["metadata", "spec"]))
        .or_else(|| form(spec, lists))
        .or_else(|| metadata.and_then(|it| form(it, &["labels", "annotations"])))
        .or_else(|| lists.iter().find_map(|key| list(spec.get(key)?, key)))
        .or_else(|| twice(spec, &["containers"]))
        .or_else(|| {
            let maps = ["labels", "annotations"];
            maps.iter().find_map(|key| map(metadata?.get(key)?, key))
        })
}

/// The problem of a node that is not an unshared map, or does not have each of the keys by itself and once at most.
fn form(node: &Node, keys: &[&str]) -> Option<Problem> {
    if !matches!(node.kind, NodeKind::Map { .. }) && !node.is_null() {
        return Some(Problem::new(node.line, "a map of fields is expected here"));
    }
    shared(node)
        .or_else(|| {
            keys.iter()
                .find_map(|key| node.merges(key))
                .map(|key| merged(key.line))
        })
        .or_else(|| twice(node, keys))
        .or_else(|| keys.iter().find_map(|key| shared(node.get(key)?)))
}

fn twice(node: &Node, keys: &[&str]) -> Option<Problem> {
    keys.iter().find_map(|key| {
        let mut named = node.fields().iter().filter(|(k, _)| k.is_text(key));
        let (second, _) = named.nth(1)?;
        Some(Problem::new(second.line, format!("{key} is there twice")))
    })
}

fn shared(node: &Node) -> Option<Problem> {
    let reason = "an anchor or alias cannot be changed in place; write the value out";
    node.shared.then(|| Problem::new(node.line, reason))
}

fn list(node: &Node, key: &str) -> Option<Problem> {
    let fits = matches!(node.kind, NodeKind::List { .. }) || node.is_null();
    (!fits).then(|| Problem::new(node.line, format!("{key} is not a list")))
}

fn map(node: &Node, key: &str) -> Option<Problem> {
    let fits = matches!(node.kind, NodeKind::Map { .. }) || node.is_null();
    (!fits).then(|| Problem::new(node.line, format!("{key} is not a map")))
}
