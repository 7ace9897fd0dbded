//! Reads a mesh file.

use super::error::MeshError;
use super::model::Mesh;
use super::{check, decl};
use std::fs::File;
use std::io::Read;
use std::path::Path;

impl Mesh {
    /// Parses and checks the text of a mesh file. The name is only for errors.
    pub fn parse(file: &str, text: &str) -> Result<Self, MeshError> {
        let (decl, problems) = decl::parse(text);
        check::check(decl, problems).map_err(|problems| MeshError::Invalid {
            file: file.to_owned(),
            problems,
        })
    }

    /// Reads, parses and checks a mesh file.
    pub fn read(path: &Path) -> Result<Self, MeshError> {
        Self::parse(&path.display().to_string(), &read(path)?)
    }
}

/// The text of a file within the size limit.
pub(super) fn read(path: &Path) -> Result<String, MeshError> {
    let unreadable = |reason: String| MeshError::Read {
        file: path.display().to_string(),
        reason,
    };
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_string(&mut text))
        .map_err(|error| unreadable(error.to_string()))?;
    if text.len() as u64 > MAX_BYTES {
        return Err(unreadable(format!("it is larger than {MAX_BYTES} bytes")));
    }
    Ok(text)
}

/// The largest file: room for some 100,000 endpoints.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
