//! Removes the sidecar from manifests.

use crate::{
    annotations::{
        CONTROL_PLANE_NS, CREATED_BY, INHERITED, OWNER_PREFIX, PROXY_VERSION, TRUST_ROOT,
        WORKLOAD_NS,
    },
    note::{Manifest, ManifestError, Note, NoteKind},
    sidecar::{INIT, PROXY, VALIDATOR, VOLUMES},
    workload::{Workload, objects},
    yaml::{Change, Node, PathStep, apply, parse},
};

/// Removes containers, volumes, labels and annotations of the sidecar. If a manifest has an error, none is changed.
pub fn uninject(manifests: &[Manifest]) -> Result<(Vec<Manifest>, Vec<Note>), ManifestError> {
    let (mut changed, mut notes, mut problems) = (Vec::new(), Vec::new(), Vec::new());
    for manifest in manifests {
        let name = manifest.name.clone();
        let result = parse(&manifest.text).and_then(|documents| {
            let mut changes = Vec::new();
            for workload in objects(&documents).iter().filter_map(|it| it.workload()) {
                let removals = removals(&workload);
                notes.push(note(&manifest.name, &workload, !removals.is_empty()));
                changes.extend(removals);
            }
            apply(&manifest.text, &changes)
        });
        match result {
            Ok(text) => changed.push(Manifest { name, text }),
            Err(problem) => problems.push((name, problem)),
        }
    }
    match problems.is_empty() {
        true => Ok((changed, notes)),
        false => Err(ManifestError { problems }),
    }
}

fn removals(workload: &Workload<'_>) -> Vec<Change> {
    let (Some(template), Some(spec)) = (workload.template, workload.spec(&[])) else {
        return Vec::new();
    };
    let containers = [PROXY, INIT, VALIDATOR];
    let mut removals = Removals {
        workload,
        changes: Vec::new(),
    };
    removals.items(spec, "initContainers", &containers);
    removals.items(spec, "containers", &containers);
    if removals.changes.is_empty() {
        return Vec::new();
    }
    removals.items(spec, "volumes", VOLUMES);
    removals.metadata(template);
    removals.changes
}

struct Removals<'a> {
    workload: &'a Workload<'a>,
    changes: Vec<Change>,
}

impl Removals<'_> {
    /// Removes the items with these names from a list of the pods' spec.
    fn items(&mut self, spec: &Node, key: &str, names: &[&str]) {
        let Some(list) = spec.own(key) else { return };
        let is_ours = |item: &Node| {
            let name = item.get("name").and_then(Node::text);
            name.is_some_and(|name| names.contains(&name))
        };
        let path = self.workload.path_to(&["spec", key]);
        if list.items().iter().all(is_ours) && !keeps_braces(spec, list) {
            let is_empty = list.items().is_empty();
            self.changes
                .extend((!is_empty).then_some(Change::Remove(path)));
            return;
        }
        let ours = list
            .items()
            .iter()
            .enumerate()
            .filter(|(_, item)| is_ours(item));
        let removed = ours.map(|(n, _)| {
            let mut path = path.clone();
            path.push(PathStep::Index(n));
            Change::Remove(path)
        });
        self.changes.extend(removed);
    }

    fn metadata(&mut self, template: &Node) {
        let Some(metadata) = template.own("metadata") else {
            return;
        };
        let inherited = self.workload.annotation(INHERITED).unwrap_or_default();
        let inherited: Vec<_> = inherited.split(',').collect();
        let annotations = [CREATED_BY, PROXY_VERSION, TRUST_ROOT, INHERITED];
        let is_annotation = |key: &str| annotations.contains(&key) || inherited.contains(&key);
        let is_label = |key: &str| {
            key == CONTROL_PLANE_NS || key == WORKLOAD_NS || key.starts_with(OWNER_PREFIX)
        };
        let labels = Part::of(metadata, "labels", is_label);
        let annotations = Part::of(metadata, "annotations", is_annotation);
        let parts = [labels, annotations];
        let whole = parts.iter().filter(|part| part.is_whole).count();
        // An object keeps its own metadata, which has at least a name.
        if whole > 0 && whole == metadata.fields().len() && !keeps_braces(template, metadata) {
            self.changes
                .push(Change::Remove(self.workload.path_to(&["metadata"])));
            return;
        }
        for part in parts {
            let path = |key: &str| self.workload.path_to(&["metadata", part.name, key]);
            let removed: Vec<_> = match part.is_whole {
                true => vec![Change::Remove(
                    self.workload.path_to(&["metadata", part.name]),
                )],
                false => part
                    .keys
                    .iter()
                    .map(|key| Change::Remove(path(key)))
                    .collect(),
            };
            self.changes.extend(removed);
        }
    }
}

/// The sidecar's part of labels or annotations.
struct Part<'n> {
    name: &'static str,
    keys: Vec<&'n str>,
    /// Whether the map is removed as a whole: it has no other entries, and was not in braces before the injection.
    is_whole: bool,
}

impl<'n> Part<'n> {
    fn of(metadata: &'n Node, name: &'static str, is_ours: impl Fn(&str) -> bool) -> Self {
        let map = metadata.own(name);
        let fields = map.map_or(&[][..], Node::fields);
        let keys = fields.iter().filter_map(|(key, _)| key.text());
        let keys: Vec<_> = keys.filter(|key| is_ours(key)).collect();
        let is_all = !keys.is_empty() && keys.len() == fields.len();
        Self {
            name,
            is_whole: is_all && map.is_some_and(|map| !keeps_braces(metadata, map)),
            keys,
        }
    }
}

/// Whether a value was written in braces before the injection: values added to block lines are block lines.
fn keeps_braces(parent: &Node, value: &Node) -> bool {
    value.is_flow() && !parent.is_flow()
}

fn note(manifest: &str, workload: &Workload<'_>, is_changed: bool) -> Note {
    let (kind, reason) = match is_changed {
        true => (NoteKind::Changed, ""),
        false => (NoteKind::Skipped, "it has no sidecar"),
    };
    Note {
        kind,
        manifest: manifest.to_owned(),
        line: workload.object.line,
        workload: workload.label.clone(),
        reason: reason.to_owned(),
    }
}
