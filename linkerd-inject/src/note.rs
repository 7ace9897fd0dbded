//! Manifests, and messages about them.

use crate::problem::Problem;
use std::fmt;

/// A text with the manifests of any number of objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The name for messages.
    pub name: String,
    /// YAML or JSON.
    pub text: String,
}

/// A message about a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The outcome, or a warning.
    pub kind: NoteKind,
    /// The manifest's name.
    pub manifest: String,
    /// The workload's line, from 1.
    pub line: u64,
    /// The kind and name, such as `Deployment/web`, and the document if there are several.
    pub workload: String,
    /// An explanation; it may be empty.
    pub reason: String,
}

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteKind {
    /// The workload was changed.
    Changed,
    /// The workload was left unchanged.
    Skipped,
    /// A part of the workload has no effect.
    Warning,
}

/// The errors of manifests, none of which was changed. Displayed as one line for each error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestError {
    /// The errors, each with the name of its manifest.
    pub problems: Vec<(String, Problem)>,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (manifest, line) = (&self.manifest, self.line);
        let kind = match self.kind {
            NoteKind::Changed => "changed",
            NoteKind::Skipped => "skipped",
            NoteKind::Warning => "warning",
        };
        write!(f, "{manifest}:{line}: {}: {kind}", self.workload)?;
        match self.reason.is_empty() {
            true => Ok(()),
            false => write!(f, ": {}", self.reason),
        }
    }
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (manifest, problem)) in self.problems.iter().enumerate() {
            let newline = if n == 0 { "" } else { "\n" };
            write!(f, "{newline}{manifest}:{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ManifestError {}
