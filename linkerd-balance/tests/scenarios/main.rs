//! The balancer from outside, in virtual time.
//!
//! Each YAML file here is a scenario: endpoints, phases of traffic and of changes, and bands for the shares of the endpoints,
//! the success rate and the latencies. [`cases`] has the scenarios that check single requests.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod cases;
mod file;
mod harness;
mod phase;
mod yaml;

use file::Scenario;
use std::{fs, path::Path};

#[test]
fn every_file_comes_out_as_it_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "yaml")
        })
        .collect();
    files.sort();
    let mut problems = Vec::new();
    for path in &files {
        let name = path.file_stem().unwrap().to_string_lossy();
        let text = fs::read_to_string(path).unwrap();
        let scenario: Scenario = serde_json::from_value(yaml::parse(&text))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let found = harness::run(phase::run(&scenario));
        problems.extend(
            found
                .into_iter()
                .map(|problem| format!("{name}: {problem}")),
        );
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(files.len() >= 15, "{}", files.len());
}
