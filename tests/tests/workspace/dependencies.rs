//! Check that each dependency is used: an unused one is built, audited and updated for nothing.
//!
//! A dependency is used if a path in the package's code names it. Use in tests alone suffices for development dependencies only.

use super::{
    metadata,
    source::{Import, imports, imports_with_tests},
};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

#[test]
fn every_dependency_is_used() {
    let metadata = metadata();
    let mut unused = Vec::new();
    for package in metadata["packages"].as_array().unwrap() {
        let folder = Path::new(package["manifest_path"].as_str().unwrap());
        let used = UsedCrates::of(folder.parent().unwrap());
        for dependency in package["dependencies"].as_array().unwrap() {
            let names = [&dependency["rename"], &dependency["name"]];
            let name = names.into_iter().find_map(Value::as_str).unwrap();
            let used = match dependency["kind"].as_str() {
                Some("dev") => &used.anywhere,
                _ => &used.outside_tests,
            };
            if !used.contains(&library(name)) {
                unused.push(format!("{}: {name}", package["name"].as_str().unwrap()));
            }
        }
    }
    assert!(unused.is_empty(), "unused dependencies: {unused:#?}");
}

#[test]
fn every_dependency_of_the_workspace_has_a_user() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let used = packages.flat_map(|package| package["dependencies"].as_array().unwrap());
    let used: BTreeSet<_> = used
        .map(|dependency| dependency["name"].as_str().unwrap())
        .collect();
    let root = Path::new(metadata["workspace_root"].as_str().unwrap());
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let table = manifest
        .split("\n[")
        .find_map(|table| table.strip_prefix(TABLE));
    let declared = table.unwrap().lines();
    let declared = declared.filter_map(|line| line.split_once(" = "));
    let unused: Vec<_> = declared
        .map(|(name, _)| name)
        .filter(|name| !used.contains(name) && !name.starts_with('#'))
        .collect();
    assert!(unused.is_empty(), "of no crate: {unused:#?}");
}

/// Other versions would be built, and reviewed, a second time.
#[test]
fn the_example_has_the_versions_of_the_workspace() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let packages = |lock: &str| {
        let lock = fs::read_to_string(root.join(lock)).unwrap();
        let tables = lock.split("[[package]]").skip(1);
        let names = tables.map(|it| it.trim().lines().take(2).collect::<Vec<_>>().join(" "));
        names.collect::<BTreeSet<_>>()
    };
    let (workspace, example) = (
        packages("Cargo.lock"),
        packages("examples/own-test/Cargo.lock"),
    );
    let others: Vec<_> = example.difference(&workspace).collect();
    assert_eq!(
        others,
        [r#"name = "own-test" version = "0.1.0""#],
        "`just lock-example` takes those of the workspace"
    );
}

/// Crates that a package's code names, by library name.
struct UsedCrates {
    anywhere: BTreeSet<String>,
    outside_tests: BTreeSet<String>,
}

impl UsedCrates {
    fn of(package: &Path) -> Self {
        let mut used = Self {
            anywhere: BTreeSet::new(),
            outside_tests: BTreeSet::new(),
        };
        for path in sources(package) {
            let text = fs::read_to_string(&path).unwrap();
            let inside = path.strip_prefix(package).unwrap().with_extension("");
            let is_test = |name| matches!(name, "tests" | "benches" | "examples");
            let mut folders = inside.iter().filter_map(|name| name.to_str());
            if !folders.any(is_test) {
                used.outside_tests
                    .extend(imports(&text).iter().flat_map(root));
            }
            used.anywhere
                .extend(imports_with_tests(&text).iter().flat_map(root));
        }
        used
    }
}

/// First name of a path. An unused crate with the name of one of our modules is missed.
fn root(import: &Import) -> Option<String> {
    import.path.iter().find(|name| *name != "::").cloned()
}

fn library(name: &str) -> String {
    name.replace('-', "_")
}

/// The Rust files of a package.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let of_entry = |path: PathBuf| match path.is_dir() {
        // A folder with a manifest is another package.
        true if path.join("Cargo.toml").exists() => Vec::new(),
        true => sources(&path),
        false => vec![path],
    };
    let all = entries.flat_map(of_entry);
    all.filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

const TABLE: &str = "workspace.dependencies]\n";
