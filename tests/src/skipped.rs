//! Tests that cannot run on this machine.

use std::{fs::OpenOptions, io::Write, os::unix::fs::MetadataExt, path::Path};

/// Notes that the running test, or a part of it, cannot run here. `tests/run` lists the notes at its end; the output of a test that
/// passes is not shown.
pub fn skipped(reason: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let line = format!("{test}: {}\n", reason.trim().replace('\n', "; "));
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/skipped-tests");
    let file = OpenOptions::new().create(true).append(true).open(file);
    if let Ok(mut file) = file {
        // One write: tests run at the same time.
        let _ = file.write_all(line.as_bytes());
    }
    eprint!("SKIPPED {line}");
}

/// Whether this is root, who may start programs as another user. Without it, the test is noted as one that cannot run, and passes; if
/// `CI` is set, it fails.
pub fn is_root() -> bool {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    if !is_root {
        let missing = "programs of other users need root";
        assert!(std::env::var_os("CI").is_none(), "{missing}");
        skipped(missing);
    }
    is_root
}
