//! Injection: adds the sidecar to Kubernetes manifests, and removes it again.
//!
//! **Contents.** [`inject()`] and [`uninject()`] take manifests ([`Manifest`]) and return them changed, with a [`Note`] for
//! each workload. [`MeshInstallation`] is the installation that pods join, [`ProxySettings`] the defaults of their annotations.
//! [`unified_diff`] shows what changed.
//!
//! **Place.** It depends on no other crate of the proxy: only commands use it, and a sidecar never does.
//!
//! **Invariants.**
//! - Bytes that belong to no part of the sidecar stay unchanged: comments, order, quotes, line ends.
//! - All manifests are changed, or, if one has an error, none.
//! - An injected manifest is not injected again. Removing the sidecar restores the original text.
//!
//! **Never.** It reads no file and contacts no cluster.

mod annotations;
mod conflicts;
mod decision;
mod diff;
mod field;
mod inject;
mod note;
mod options;
mod ports;
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
