//! Injection: adds the sidecar to Kubernetes manifests, and takes it out again.
//!
//! **Contents.** [`inject()`] and [`uninject()`] take manifests ([`Manifest`]) and return them changed, with a [`Note`] for
//! each workload. [`MeshInstallation`] is the installation that pods join, [`ProxySettings`] the defaults of their annotations.
//! [`unified_diff`] shows what changed.
//!
//! **Place.** It depends on no other crate of the proxy: only commands use it, and a sidecar never does.
//!
//! **Invariants.**
//! - Bytes that belong to no part of the sidecar stay: comments, order, quotes, line ends.
//! - All manifests are changed, or, if one has an error, none.
//! - What is injected is not injected again. Taking the sidecar out restores the text that it was added to.
//!
//! **Never.** It reads no file and asks no cluster.

mod annotations;
mod conflicts;
mod decision;
mod diff;
mod inject;
mod note;
mod options;
mod problem;
mod settings;
mod sidecar;
mod uninject;
mod workload;
mod yaml;

pub use self::decision::InjectMode;
pub use self::diff::unified_diff;
pub use self::inject::inject;
pub use self::note::{Manifest, ManifestError, Note, NoteKind};
pub use self::options::InjectOptions;
pub use self::problem::Problem;
pub use self::settings::{CONFIG_PREFIX, ProxySettings};
pub use self::sidecar::MeshInstallation;
pub use self::uninject::uninject;
