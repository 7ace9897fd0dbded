//! The binary of a proxy.

use std::env::split_paths;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The file of a program: a path as it is, a name by the folders of `path`. The name itself if none has it.
///
/// The operating system would search the path of the new process, whose environment is empty.
pub(super) fn find(program: &Path, path: Option<&OsStr>) -> PathBuf {
    let is_name = program.components().count() == 1 && program.file_name().is_some();
    let mut folders = path.into_iter().flat_map(split_paths);
    let found = folders.find_map(|folder| {
        let file = folder.join(program);
        (is_name && file.is_file()).then_some(file)
    });
    found.unwrap_or_else(|| program.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_by_the_path_and_paths_are_left() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (name, binary) = (Path::new("proxy"), second.path().join("proxy"));
        std::fs::create_dir(first.path().join("proxy")).unwrap();
        std::fs::write(&binary, "").unwrap();
        let path = std::env::join_paths([first.path(), second.path()]).unwrap();

        assert_eq!(find(name, Some(&path)), binary);
        assert_eq!(find(name, None), name);
        assert_eq!(
            find(Path::new("./proxy"), Some(&path)),
            Path::new("./proxy")
        );
        assert_eq!(find(Path::new("other"), Some(&path)), Path::new("other"));
    }
}
