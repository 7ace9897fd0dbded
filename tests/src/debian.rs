//! Programs of Debian that tests use.

use crate::skipped;
use std::path::Path;

/// Whether a Debian package is installed, by one of its files. Without it, a test prints that and passes; if `CI` is set, it
/// fails.
pub fn is_installed(package: &str, file: &str) -> bool {
    let is_there = Path::new(file).exists();
    if !is_there {
        let missing = format!("{file} does not exist: apt-get install {package}");
        assert!(std::env::var_os("CI").is_none(), "{missing}");
        skipped(&missing);
    }
    is_there
}
