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
    settings::{CONFIG_PREFIX, LOCAL_IMAGE},
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
    let mut local_image = None;
    for (manifest, documents) in parsed {
        let mut injection = Injection {
            manifest: &manifest.name,
            options,
            namespaces: &namespaces,
            changes: Vec::new(),
            notes: Vec::new(),
            local_image: None,
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
        local_image = local_image.or(injection.local_image);
    }
    notes.extend(local_image);
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
    /// The warning of the first workload whose image no registry has: one is enough for all.
    local_image: Option<Note>,
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
        let standard = self.namespaces.forbids_capabilities(namespace);
        let standard = standard.filter(|_| !self.options.mesh.cni);
        let standard = standard.map(forbidden);
        let warnings = effective.warnings.iter().chain(&owner);
        for warning in warnings.chain(&standard) {
            self.note(NoteKind::Warning, line, workload.label.clone(), warning);
        }
        if problems.is_empty() {
            self.note(NoteKind::Changed, line, workload.label.clone(), "");
            if settings.image == LOCAL_IMAGE && self.local_image.is_none() {
                let reason = format!(
                    "no registry has the image {LOCAL_IMAGE}:{}: unless the nodes have it, name yours by --proxy-image, or by the \
                     annotation {CONFIG_PREFIX}proxy-image",
                    settings.version
                );
                let label = workload.label.clone();
                self.local_image = Some(self.written(NoteKind::Warning, line, label, reason));
            }
        }
        let problems = problems
            .into_iter()
            .map(|problem| problem.of(&workload.label));
        self.problems.extend(problems);
    }

    fn note(&mut self, kind: NoteKind, line: u64, workload: String, reason: impl Into<String>) {
        let note = self.written(kind, line, workload, reason);
        self.notes.push(note);
    }

    fn written(
        &self,
        kind: NoteKind,
        line: u64,
        workload: String,
        reason: impl Into<String>,
    ) -> Note {
        Note {
            kind,
            manifest: self.manifest.to_owned(),
            line,
            workload,
            reason: reason.into(),
        }
    }
}

/// The warning for a namespace whose pod security standard refuses the init container.
fn forbidden(standard: &str) -> String {
    format!(
        "its namespace enforces the pod security standard {standard:?}, which forbids the capabilities NET_ADMIN and NET_RAW of \
         linkerd-init: let a CNI plugin redirect (--linkerd-cni-enabled), or enforce \"privileged\""
    )
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
