//! Allowed dependencies between crates. A missing dependency is a decision to be made, not a line to be added.

use super::metadata;
use std::collections::{BTreeMap, BTreeSet};

/// Each crate, and the crates of this workspace that it may use.
const ALLOWED: &[(&str, &[&str])] = &[
    ("linkerd-api-proto", &[]),
    ("linkerd-proxy-core", &[]),
    ("linkerd-discover", &["linkerd-proxy-core"]),
    ("linkerd-profiles", &["linkerd-proxy-core"]),
    // Protobuf messages of the configuration stay in this crate: discover and profiles have traits for its source.
    (
        "linkerd-api-client",
        &[
            "linkerd-api-proto",
            "linkerd-proxy-core",
            "linkerd-discover",
            "linkerd-profiles",
        ],
    ),
    ("linkerd-balance", &["linkerd-proxy-core"]),
    ("linkerd-control", &["linkerd-api-proto"]),
    ("linkerd-init", &[]),
    // For commands: it knows the proxy only by its contract, as the injector of a cluster does.
    ("linkerd-inject", &[]),
    (
        "linkerd-app",
        &[
            "linkerd-api-proto",
            "linkerd-proxy-core",
            "linkerd-discover",
            "linkerd-profiles",
            "linkerd-api-client",
            "linkerd-balance",
            "linkerd-control",
            "linkerd-init",
            "linkerd-inject",
        ],
    ),
    (
        "linkerd-fuzz",
        &[
            "linkerd-api-client",
            "linkerd-api-proto",
            "linkerd-proxy-core",
            "linkerd-discover",
            "linkerd-profiles",
            "linkerd-control",
            "linkerd-app",
        ],
    ),
    // Whole proxies are measured from outside; parts with a cost for each request are measured alone.
    (
        "bench",
        &[
            "linkerd-proxy-core",
            "linkerd-balance",
            "linkerd-profiles",
            "linkerd-control",
            "linkerd-app",
        ],
    ),
    // The proxy is tested from the outside, as a process.
    ("linkerd-tests", &["linkerd-control", "linkerd-api-proto"]),
];

#[test]
fn crates_use_only_those_that_they_may() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap();
    let ours: BTreeSet<_> = packages
        .iter()
        .map(|package| package["name"].as_str().unwrap())
        .collect();
    let allowed: BTreeMap<_, _> = ALLOWED.iter().copied().collect();
    let mut wrong = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap();
        let Some(allowed) = allowed.get(name) else {
            wrong.push(format!("{name} is not in the list"));
            continue;
        };
        for dependency in package["dependencies"].as_array().unwrap() {
            let used = dependency["name"].as_str().unwrap();
            if ours.contains(used) && !allowed.contains(&used) {
                wrong.push(format!("{name} -> {used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "arrows that are not allowed: {wrong:#?}");
    for (name, _) in ALLOWED {
        assert!(
            ours.contains(name),
            "{name} is in the list and not in the workspace"
        );
    }
}
