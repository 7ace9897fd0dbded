//! Which crate may use which. ARCHITECTURE.md draws it.

use serde_json::Value;
use std::process::Command;

/// Each crate, and those that it may use. A crate that is not listed may use all, and none may use it.
const ALLOWED: &[(&str, &[&str])] = &[
    ("linkerd-api-proto", &[]),
    ("linkerd-proxy-core", &[]),
    ("linkerd-balance", &["linkerd-proxy-core"]),
    (
        "linkerd-discover",
        &["linkerd-proxy-core", "linkerd-api-proto"],
    ),
    (
        "linkerd-profiles",
        &["linkerd-proxy-core", "linkerd-api-proto"],
    ),
    ("linkerd-control", &["linkerd-api-proto"]),
    (
        "linkerd-app",
        &[
            "linkerd-balance",
            "linkerd-control",
            "linkerd-discover",
            "linkerd-profiles",
            "linkerd-proxy-core",
            "linkerd-api-proto",
        ],
    ),
];

/// The crates that test the others.
const TESTERS: &[&str] = &["linkerd-tests", "linkerd-fuzz", "bench"];

#[test]
fn crates_use_only_what_they_may() {
    let metadata = metadata();
    let members = metadata["packages"].as_array().unwrap();
    let names: Vec<_> = members.iter().map(|member| text(&member["name"])).collect();
    for member in members {
        let name = text(&member["name"]);
        let Some((_, allowed)) = ALLOWED.iter().find(|(listed, _)| *listed == name) else {
            assert!(TESTERS.contains(&name), "{name} needs a row here");
            continue;
        };
        let dependencies = member["dependencies"].as_array().unwrap();
        // Tests may use what they like.
        let used = dependencies.iter().filter(|used| used["kind"].is_null());
        for used in used.map(|used| text(&used["name"])) {
            let ours = names.contains(&used);
            assert!(!ours || allowed.contains(&used), "{name} uses {used}");
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a name is a string")
}

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version=1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs the tests");
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("cargo prints JSON")
}
