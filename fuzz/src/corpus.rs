//! The committed corpus: a folder of inputs for each target.

use crate::Target;
use std::{fs, io, path::PathBuf};

/// The inputs of a target, in the order of their names. Both runners begin with them.
pub fn corpus(target: &Target) -> io::Result<Vec<Vec<u8>>> {
    let entries = fs::read_dir(folder(target))?;
    let mut paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    paths.into_iter().map(fs::read).collect()
}

/// The folder of a target's inputs.
pub(crate) fn folder(target: &Target) -> PathBuf {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus");
    PathBuf::from(corpus).join(target.name)
}
