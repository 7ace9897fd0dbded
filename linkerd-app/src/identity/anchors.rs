//! The configured trust anchors. Those of a file are read again while the proxy runs.
//!
//! - **Bounds**: 1 MiB of text.

use crate::config::AnchorsConfig;
use linkerd_proxy_core::tls::{InvalidTrustAnchors, TrustAnchors};
use std::{
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// The configured trust anchors, and their file, if they are from one.
#[derive(Debug)]
pub struct ConfiguredAnchors {
    anchors: TrustAnchors,
    file: Option<AnchorsFile>,
}

/// The text of the configured trust anchors, at most 1 MiB; `None` if they come from the workload API.
pub fn anchors_text(config: &AnchorsConfig) -> io::Result<Option<String>> {
    match config {
        AnchorsConfig::Bundle => Ok(None),
        AnchorsConfig::Pem(pem) => Ok(Some(pem.clone())),
        AnchorsConfig::File(path) => read_bounded(path).map(Some),
    }
}

/// A file of trust anchors, as it was read last.
#[derive(Debug)]
struct AnchorsFile {
    path: PathBuf,
    stamp: Option<FileStamp>,
    text: String,
    last_error: Option<String>,
}

/// The attributes of a file that change when it is written or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    modified: (i64, i64),
    length: u64,
    inode: u64,
}

/// The result of another look at the trust anchors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnchorsLook {
    /// The anchors, or the problem with them, have not changed.
    Same,
    /// The anchors have changed.
    Changed(TrustAnchors),
    /// The anchors cannot be read, for a new reason.
    Failed(AnchorsFileError),
}

/// A file without usable trust anchors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct AnchorsFileError {
    path: PathBuf,
    problem: String,
}

impl ConfiguredAnchors {
    /// Reads the trust anchors at the start.
    pub fn load(config: &AnchorsConfig) -> Result<Self, AnchorsLoadError> {
        match config {
            AnchorsConfig::Bundle => Ok(Self {
                anchors: TrustAnchors::none(),
                file: None,
            }),
            AnchorsConfig::Pem(pem) => Ok(Self {
                anchors: TrustAnchors::from_pem(pem)?,
                file: None,
            }),
            AnchorsConfig::File(path) => {
                let mut file = AnchorsFile {
                    path: path.clone(),
                    stamp: FileStamp::of(path),
                    text: String::new(),
                    last_error: None,
                };
                let (anchors, text) = file.parse()?;
                file.text = text;
                Ok(Self {
                    anchors,
                    file: Some(file),
                })
            }
        }
    }

    /// The last good anchors.
    pub fn anchors(&self) -> &TrustAnchors {
        &self.anchors
    }

    /// The file; `None` if the anchors are fixed.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_ref().map(|file| &*file.path)
    }

    /// The reason why the file could not be read at the last look.
    pub fn last_error(&self) -> Option<&str> {
        self.file.as_ref()?.last_error.as_deref()
    }

    /// Reads the file again if it has another time of modification.
    pub fn look(&mut self) -> AnchorsLook {
        match &self.file {
            Some(file) if file.stamp != FileStamp::of(&file.path) => self.read(),
            _ => AnchorsLook::Same,
        }
    }

    /// Reads the file again.
    pub fn read(&mut self) -> AnchorsLook {
        let Some(file) = &mut self.file else {
            return AnchorsLook::Same;
        };
        // Before the text: a change between the two is found at the next look.
        file.stamp = FileStamp::of(&file.path);
        match file.parse() {
            Ok((_, text)) if text == file.text => {
                file.last_error = None;
                AnchorsLook::Same
            }
            Ok((anchors, text)) => {
                (file.text, file.last_error) = (text, None);
                self.anchors = anchors.clone();
                AnchorsLook::Changed(anchors)
            }
            Err(error) => {
                let before = file.last_error.replace(error.problem.clone());
                match before.as_ref() == Some(&error.problem) {
                    true => AnchorsLook::Same,
                    false => AnchorsLook::Failed(error),
                }
            }
        }
    }
}

/// Errors of the trust anchors at the start.
#[derive(Debug, thiserror::Error)]
pub enum AnchorsLoadError {
    /// The text has no trust anchors.
    #[error(transparent)]
    Text(#[from] InvalidTrustAnchors),
    /// The file has no trust anchors.
    #[error("Failed to read trust anchors: {0}")]
    File(#[from] AnchorsFileError),
}

impl AnchorsFile {
    fn parse(&self) -> Result<(TrustAnchors, String), AnchorsFileError> {
        let failed = |problem: String| AnchorsFileError {
            path: self.path.clone(),
            problem,
        };
        let text = read_bounded(&self.path).map_err(|error| failed(error.to_string()))?;
        match TrustAnchors::from_pem(&text) {
            Ok(anchors) => Ok((anchors, text)),
            Err(error) => Err(failed(error.to_string())),
        }
    }
}

impl FileStamp {
    /// The stamp of a file; `None` if there is none.
    fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        Some(Self {
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            length: metadata.len(),
            inode: metadata.ino(),
        })
    }
}

fn read_bounded(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = File::open(path)?
        .take(MAX_BYTES + 1)
        .read_to_string(&mut text)?;
    if read as u64 > MAX_BYTES {
        let problem = format!("it has more than {MAX_BYTES} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
    }
    Ok(text)
}

/// Hundreds of certificates.
const MAX_BYTES: u64 = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use linkerd_control::Authority;

    fn anchors() -> String {
        Authority::generate("root")
            .unwrap()
            .trust_anchors()
            .to_owned()
    }

    #[test]
    fn a_file_is_read_again_when_it_has_changed() {
        let files = tempfile::tempdir().unwrap();
        let path = files.path().join("anchors.pem");
        let (old, new) = (anchors(), anchors());
        fs::write(&path, &old).unwrap();
        let mut configured = ConfiguredAnchors::load(&AnchorsConfig::File(path.clone())).unwrap();
        assert_eq!(configured.look(), AnchorsLook::Same);
        // As a mounted volume changes: by another file.
        fs::write(files.path().join("next"), format!("{old}{new}")).unwrap();
        fs::rename(files.path().join("next"), &path).unwrap();
        let AnchorsLook::Changed(both) = configured.look() else {
            panic!("it has changed");
        };
        assert_eq!((both.len(), configured.look()), (2, AnchorsLook::Same));
        assert_eq!(configured.anchors(), &both);
    }

    #[test]
    fn a_bad_file_keeps_the_last_anchors_and_is_told_once() {
        let files = tempfile::tempdir().unwrap();
        let path = files.path().join("anchors.pem");
        let good = anchors();
        fs::write(&path, &good).unwrap();
        let mut configured = ConfiguredAnchors::load(&AnchorsConfig::File(path.clone())).unwrap();
        let half = &good[..good.len() / 2];
        let long = "#".repeat(MAX_BYTES as usize + 1);
        for (bad, problem) in [
            ("", "no trust roots"),
            (half, "not PEM"),
            (&long, "more than"),
        ] {
            fs::write(&path, bad).unwrap();
            let AnchorsLook::Failed(error) = configured.read() else {
                panic!("{problem}");
            };
            let text = error.to_string();
            assert!(
                text.contains(problem) && text.contains("anchors.pem"),
                "{text}"
            );
            assert_eq!(configured.read(), AnchorsLook::Same);
            assert!(configured.last_error().unwrap().contains(problem));
        }
        fs::remove_file(&path).unwrap();
        assert!(matches!(configured.look(), AnchorsLook::Failed(_)));
        assert_eq!(configured.look(), AnchorsLook::Same);
        assert_eq!(configured.anchors().len(), 1);
        fs::write(&path, &good).unwrap();
        assert_eq!(
            configured.look(),
            AnchorsLook::Same,
            "they are those before"
        );
        assert_eq!(configured.last_error(), None);
    }

    #[test]
    fn at_the_start_a_bad_file_is_an_error_with_its_name() {
        let missing = AnchorsConfig::File("/none/anchors.pem".into());
        let error = ConfiguredAnchors::load(&missing).unwrap_err().to_string();
        assert!(
            error.starts_with("Failed to read trust anchors: /none/anchors.pem: No such file"),
            "{error}"
        );
    }
}
