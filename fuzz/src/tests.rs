//! The corpus is complete and passes, and each target has its program for `cargo fuzz`.

use super::*;
use crate::corpus::folder;
use std::{collections::BTreeSet, fs, path::Path};

#[test]
fn the_corpus_has_every_seed_and_no_input_fails() {
    for target in TARGETS {
        if std::env::var_os("UPDATE_CORPUS").is_some() {
            write(target);
        }
        let corpus = corpus(target).unwrap();
        for seed in (target.seeds)() {
            let name = target.name;
            assert!(corpus.contains(&seed), "{name}: UPDATE_CORPUS=1 adds seeds");
        }
        for input in corpus {
            (target.run)(&input);
        }
    }
}

/// Writes the seeds of a target. Other inputs of its corpus, such as those of fixed errors, stay.
fn write(target: &Target) {
    let folder = folder(target);
    fs::create_dir_all(&folder).unwrap();
    for (number, seed) in (target.seeds)().into_iter().enumerate() {
        fs::write(folder.join(format!("seed-{number:02}")), seed).unwrap();
    }
}

#[test]
fn every_target_runs_under_cargo_fuzz() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("libfuzzer");
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    let programs = manifest.split("[[bin]]\n").skip(1);
    let programs: BTreeSet<_> = programs
        .map(|program| program.split('"').nth(1).unwrap())
        .collect();
    assert_eq!(programs, TARGETS.iter().map(|target| target.name).collect());
    for name in programs {
        let program = fs::read_to_string(folder.join(format!("{name}.rs"))).unwrap();
        assert!(
            program.contains(&format!("run(\"{name}\", input)")),
            "{name}"
        );
    }
}
