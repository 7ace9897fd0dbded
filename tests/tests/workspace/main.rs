//! Rules of the workspace: dependencies between its crates, dependencies on other crates, imports between files.

#![allow(clippy::unwrap_used, missing_docs)]

mod arrows;
mod dependencies;
mod imports;
mod source;

use serde_json::Value;
use std::process::Command;

/// The packages of the workspace as cargo describes them.
fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    serde_json::from_slice(&output.stdout).unwrap()
}
