//! One file for each case of injection, with its injected text in another file. `UPDATE_GOLDEN=1` writes the latter anew.

use crate::{text_of, uninjected};
use linkerd_inject::{InjectMode, InjectOptions};
use std::{fs, path::Path};

#[test]
fn injected_texts_are_those_of_the_files() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let is_update = is_update();
    for (name, set) in ROWS {
        let read = |name: String| fs::read_to_string(folder.join(name));
        let text = read(format!("{name}.yaml")).unwrap();
        let mut options = InjectOptions::default();
        set(&mut options);
        let found = text_of(&text, &options);
        let golden = format!("{name}.injected.yaml");
        if is_update {
            fs::write(folder.join(&golden), &found).unwrap();
        }
        let expected = read(golden).unwrap_or_default();
        assert!(
            found == expected,
            "{name}: {}",
            linkerd_inject::unified_diff(name, &expected, &found)
        );
        assert_eq!(text_of(&found, &options), found, "{name}: injected twice");
        assert_eq!(uninjected(&found), text, "{name}: uninjected");
    }
}

/// Every input has a row.
#[test]
fn all_files_are_tested() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    for entry in fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let name = name.trim_end_matches(".yaml").trim_end_matches(".injected");
        assert!(ROWS.iter().any(|(row, _)| *row == name), "{name}");
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a switch of the test, not of the program"
)]
fn is_update() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some()
}

type Set = fn(&mut InjectOptions);

const ROWS: &[(&str, Set)] = &[
    ("pod", |_| {}),
    ("deployment", |_| {}),
    ("kinds", |_| {}),
    ("list", |_| {}),
    ("classic_with_await", |_| {}),
    ("classic_without_await", |_| {}),
    ("cni", |options| options.mesh.cni = true),
    ("ipv6", |options| options.mesh.ipv6 = true),
    ("ingress", |options| options.mode = InjectMode::Ingress),
    ("anchors", |options| {
        options.mesh.trust_anchors =
            Some("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned());
        options.mesh.trust_domain = "example.org".to_owned();
        options.mesh.control_plane_namespace = "mesh".to_owned();
        options.namespace = Some("shop".to_owned());
    }),
    ("annotations", |_| {}),
    ("namespace", |_| {}),
    ("json", |_| {}),
];
