//! Injection from the outside: texts in, texts out.

#![allow(clippy::unwrap_used, missing_docs)]

mod decisions;
mod deployed;
mod forms;
mod golden;
mod merges;
mod names;
mod others;
mod ports;
mod refusals;
mod round_trip;
mod types;
// Shared with the black-box tests, which are not a library of this crate.
#[path = "../../../tests/src/yaml_values.rs"]
mod yaml_values;

use linkerd_inject::{InjectOptions, Manifest, ManifestError, Note, inject, uninject};

/// Injects one text.
fn injected(text: &str, options: &InjectOptions) -> Result<(String, Vec<Note>), ManifestError> {
    let (mut manifests, notes) = inject(&[manifest(text)], options)?;
    Ok((manifests.remove(0).text, notes))
}

/// The text of an injection that must succeed.
fn text_of(text: &str, options: &InjectOptions) -> String {
    injected(text, options).unwrap().0
}

fn uninjected(text: &str) -> String {
    uninject(&[manifest(text)]).unwrap().0.remove(0).text
}

fn manifest(text: &str) -> Manifest {
    Manifest {
        name: "in.yaml".to_owned(),
        text: text.to_owned(),
    }
}

/// A Deployment whose template has these lines as its metadata and spec.
fn deployment(metadata: &str, spec: &str) -> String {
    let indented =
        |text: &str| -> String { text.lines().map(|line| format!("      {line}\n")).collect() };
    let metadata = match metadata {
        "" => String::new(),
        text => format!("    metadata:\n{}", indented(text)),
    };
    let spec = indented(spec);
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\nspec:\n  selector:\n    matchLabels:\n      \
         app: web\n  template:\n{metadata}    spec:\n{spec}"
    )
}

const CONTAINER: &str =
    "containers:\n- name: web\n  image: web:1\n  ports:\n  - containerPort: 8080\n";
