//! Adds the sidecar to manifests.

mod additions;
mod effective;
mod others;
mod owner;
mod structure;

use self::{
    additions::additions, effective::EffectiveSettings, others::remark, owner::owner_label,
    structure::structure,
};
use crate::{
    annotations::{INJECT, Namespaces},
    conflicts::conflicts,
    decision::{Decision, decide},
    note::{Manifest, ManifestError, Note, NoteKind},
    options::InjectOptions,
    problem::Problem,
    workload::{Workload, objects},
    yaml::{Change, Node, apply, parse},
};

/// Adds the sidecar to all workloads that ask for it. If one has an error, no manifest is changed.
pub fn inject(
    manifests: &[Manifest],
    options: &InjectOptions,
) -> Result<(Vec<Manifest>, Vec<Note>), ManifestError> {
    let mut problems = Vec::new();
    let mut parsed = Vec::new();
    let mut namespaces = Namespaces::default();
    for manifest in manifests {
        match parse(&manifest.text) {
            Ok(documents) => {
                let refused = namespaces.add(&objects(&documents));
                problems.extend(refused.into_iter().map(|it| (manifest.name.clone(), it)));
                parsed.push((manifest, documents));
            }
            Err(problem) => problems.push((manifest.name.clone(), problem)),
        }
    }
    let (mut injected, mut notes) = (Vec::new(), Vec::new());
    for (manifest, documents) in parsed {
        let mut injection = Injection {
            manifest: &manifest.name,
            options,
            namespaces: &namespaces,
            changes: Vec::new(),
            notes: Vec::new(),
            problems: Vec::new(),
        };
        injection.documents(&documents);
        let name = manifest.name.clone();
        let mut of_manifest = injection.problems;
        match apply(&manifest.text, &injection.changes) {
            Ok(text) => injected.push(Manifest { name, text }),
            Err(problem) => of_manifest.push(problem),
        }
        problems.extend(
            of_manifest
                .into_iter()
                .map(|it| (manifest.name.clone(), it)),
        );
        notes.extend(injection.notes);
    }
    match problems.is_empty() {
        true => Ok((injected, notes)),
        false => Err(ManifestError { problems }),
    }
}

/// The injection of one manifest.
struct Injection<'a> {
    manifest: &'a str,
    options: &'a InjectOptions,
    namespaces: &'a Namespaces,
    changes: Vec<Change>,
    notes: Vec<Note>,
    problems: Vec<Problem>,
}

impl Injection<'_> {
    fn documents(&mut self, documents: &[Node]) {
        for object in objects(documents) {
            match object.workload() {
                Some(workload) => self.workload(&workload),
                None => {
                    if let Some((kind, reason)) = remark(&object) {
                        self.note(kind, object.node.line, object.label(), reason);
                    }
                }
            }
        }
    }

    fn workload(&mut self, workload: &Workload<'_>) {
        let line = workload.object.line;
        if let Some(key) = workload.object.ambiguity() {
            self.problems.push(ambiguous(key).of(&workload.label));
            return;
        }
        let on_owner = workload.object.at(&["metadata", "annotations", INJECT]);
        if workload.kind != "Pod" && on_owner.is_some() {
            let reason = format!("{INJECT} has an effect only in the metadata of the pod template");
            self.note(NoteKind::Warning, line, workload.label.clone(), reason);
        }
        let namespace = workload.namespace.as_deref();
        let namespace = namespace.or(self.options.namespace.as_deref());
        let inherited = self.namespaces.annotations(namespace);
        let ingress = match decide(workload, inherited, self.options.mode) {
            Ok(Decision::Inject { ingress }) => ingress,
            Ok(Decision::Skip(reason)) => {
                self.note(NoteKind::Skipped, line, workload.label.clone(), reason);
                return;
            }
            Err(problem) => {
                self.problems.push(problem.of(&workload.label));
                return;
            }
        };
        let effective = EffectiveSettings::of(workload, inherited, &self.options.settings);
        let mut problems = effective.problems.clone();
        let settings = &effective.settings;
        if let Some(problem) = structure(workload, settings.native_sidecar) {
            self.problems.push(problem.of(&workload.label));
            return;
        }
        problems.extend(conflicts(workload, &effective.annotations, settings));
        if problems.is_empty() {
            match additions(workload, &effective, self.options, namespace, ingress) {
                Ok(changes) => self.changes.extend(changes),
                Err(problem) => problems.push(problem),
            }
        }
        let owner = owner_label(workload).err();
        for warning in effective.warnings.iter().chain(&owner) {
            self.note(NoteKind::Warning, line, workload.label.clone(), warning);
        }
        if problems.is_empty() {
            self.note(NoteKind::Changed, line, workload.label.clone(), "");
        }
        let problems = problems
            .into_iter()
            .map(|problem| problem.of(&workload.label));
        self.problems.extend(problems);
    }

    fn note(&mut self, kind: NoteKind, line: u64, workload: String, reason: impl Into<String>) {
        self.notes.push(Note {
            kind,
            manifest: self.manifest.to_owned(),
            line,
            workload,
            reason: reason.into(),
        });
    }
}

/// The problem of a key whose value depends on the reader.
fn ambiguous(key: &Node) -> Problem {
    let name = key.text().unwrap_or_default();
    let reason = match name {
        "<<" => "<< is there twice; write one, with a list of the maps".to_owned(),
        name => format!(
            "{name} stands before a << that has another value for it, and readers differ; move << to the start of the map"
        ),
    };
    Problem::new(key.line, reason)
}
