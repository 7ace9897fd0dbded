//! The form that a workload must have for the sidecar to be inserted.

use crate::{
    problem::Problem,
    workload::Workload,
    yaml::{Node, NodeKind},
};

/// The first obstacle in a workload's form.
pub(super) fn structure(workload: &Workload<'_>) -> Option<Problem> {
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
        crate::yaml::PathStep::Key(key) if key != "items" => Some(key.as_str()),
        _ => None,
    });
    let mut node = workload.object;
    let mut found = form(node, &[]);
    for key in keys {
        found = found.or_else(|| form(node, &[key]));
        node = node.get(key)?;
    }
    let metadata = template.get("metadata");
    found
        .or_else(|| form(template, &["metadata", "spec"]))
        .or_else(|| form(spec, &["containers", "initContainers", "volumes"]))
        .or_else(|| metadata.and_then(|it| form(it, &["labels", "annotations"])))
        .or_else(|| {
            let lists = ["containers", "initContainers", "volumes"];
            lists.iter().find_map(|key| list(spec.get(key)?, key))
        })
        .or_else(|| {
            let maps = ["labels", "annotations"];
            maps.iter().find_map(|key| map(metadata?.get(key)?, key))
        })
}

/// The problem of a node that is not an unshared map, or has one of the keys more than once.
fn form(node: &Node, keys: &[&str]) -> Option<Problem> {
    if !matches!(node.kind, NodeKind::Map { .. }) && !node.is_null() {
        return Some(Problem::new(node.line, "a map of fields is expected here"));
    }
    if let Some(problem) = shared(node) {
        return Some(problem);
    }
    if let Some((key, _)) = node.entry("<<") {
        let reason = "fields merged by << cannot be changed in place; write them out";
        return Some(Problem::new(key.line, reason));
    }
    for key in keys {
        let mut named = node.fields().iter().filter(|(k, _)| k.is_text(key));
        if let Some((second, _)) = named.nth(1) {
            return Some(Problem::new(second.line, format!("{key} is there twice")));
        }
    }
    keys.iter().find_map(|key| shared(node.get(key)?))
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
