//! Files that end with the quickstart.

use std::{fs, path::PathBuf};

/// A file that is removed on drop.
#[derive(Debug)]
pub(super) struct TemporaryFile(pub(super) PathBuf);

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // It is in the directory for temporary files, which may have been cleaned.
        let _ = fs::remove_file(&self.0);
    }
}
