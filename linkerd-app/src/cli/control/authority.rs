//! The authority of a mesh without a cluster: from files, or generated.

use linkerd_control::{Authority, AuthorityError};
use linkerd_proxy_core::tls::Identity;
use std::{
    cell::RefCell,
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The source of the authority.
#[derive(Clone, Debug)]
pub enum AuthoritySource {
    /// Certificates and the key of one of them, in PEM. They are read again on SIGHUP.
    Files {
        /// The certificates: all are trust anchors of the proxies.
        certificates: PathBuf,
        /// The private key.
        key: PathBuf,
    },
    /// A new authority for the life of the process, whose certificate is written to a file.
    Generated {
        /// The file, which does not exist yet or is empty.
        certificate: PathBuf,
    },
}

/// The authority in use.
pub(super) struct MeshAuthority {
    source: AuthoritySource,
    present: RefCell<Arc<Authority>>,
}

/// Errors of the authority's files.
#[derive(Debug, thiserror::Error)]
pub(super) enum AuthorityFileError {
    /// A file cannot be read.
    #[error("{}: {error}; `{option}` names the file", path.display())]
    Unreadable {
        option: &'static str,
        path: PathBuf,
        error: io::Error,
    },
    /// The certificate cannot be written.
    #[error("{}: {error}; name a file in a directory that can be written with `--write-trust-anchor`", path.display())]
    Unwritable { path: PathBuf, error: io::Error },
    /// The file holds something else.
    #[error(
        "{} exists, and may be the certificate of an authority that is in use: remove it if no proxy needs it, or name another file with `--write-trust-anchor`",
        .0.display()
    )]
    Exists(PathBuf),
    /// The private key is not private.
    #[error(
        "{} can be read by all users of this host (mode {mode:04o}): whoever has the key is every workload; run `chmod o= {}`",
        path.display(), path.display()
    )]
    PublicKey { path: PathBuf, mode: u32 },
    /// The files are no authority.
    #[error("{} and {}: {error}; give the certificate of an authority and its key in PEM", certificates.display(), key.display())]
    Unusable {
        certificates: PathBuf,
        key: PathBuf,
        error: AuthorityError,
    },
    /// No authority can be generated.
    #[error("no authority can be generated: {0}")]
    Generate(AuthorityError),
}

impl MeshAuthority {
    /// Reads the files, or generates an authority, whose certificate is not written yet.
    pub(super) fn new(source: AuthoritySource) -> Result<Self, AuthorityFileError> {
        let authority = match &source {
            AuthoritySource::Files { certificates, key } => read(certificates, key)?,
            AuthoritySource::Generated { .. } => {
                Authority::generate(NAME).map_err(AuthorityFileError::Generate)?
            }
        };
        Ok(Self {
            source,
            present: RefCell::new(Arc::new(authority)),
        })
    }

    /// The authority.
    pub(super) fn present(&self) -> Arc<Authority> {
        self.present.borrow().clone()
    }

    /// Writes the certificate of an authority that was generated. Called when the controller has its address: a start that fails
    /// must not take the certificate of the running one from the proxies.
    pub(super) fn publish(&self) -> Result<(), AuthorityFileError> {
        match &self.source {
            AuthoritySource::Files { .. } => Ok(()),
            AuthoritySource::Generated { certificate } => {
                write(certificate, self.present().trust_anchors())
            }
        }
    }

    /// Reads the files again. `None` for an authority that was generated, which stays.
    pub(super) fn reload(&self) -> Result<Option<Arc<Authority>>, AuthorityFileError> {
        let AuthoritySource::Files { certificates, key } = &self.source else {
            return Ok(None);
        };
        let authority = Arc::new(read(certificates, key)?);
        self.present.replace(authority.clone());
        Ok(Some(authority))
    }
}

/// Whether a proxy can ask for a controller of this name.
pub(super) fn is_dns_name(name: &str) -> bool {
    let identity: Result<Identity, _> = name.parse();
    identity.is_ok_and(|identity| identity.dns_name() == Some(name))
}

fn read(certificates: &Path, key: &Path) -> Result<Authority, AuthorityFileError> {
    let text = |option, path: &Path| {
        let bytes = fs::read(path).map_err(|error| AuthorityFileError::Unreadable {
            option,
            path: path.to_owned(),
            error,
        })?;
        // A file in DER is no text: it has no section in PEM, and is refused for that.
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let anchors = text("--trust-anchor", certificates)?;
    let private = text("--trust-anchor-key", key)?;
    let mode = fs::metadata(key).map(|it| (it.is_file(), it.permissions().mode() & 0o7777));
    if let Ok((true, mode)) = mode
        && mode & OTHERS != 0
    {
        let path = key.to_owned();
        return Err(AuthorityFileError::PublicKey { path, mode });
    }
    Authority::from_pem(&anchors, &private).map_err(|error| AuthorityFileError::Unusable {
        certificates: certificates.to_owned(),
        key: key.to_owned(),
        error,
    })
}

/// Writes the certificate to a file that is new, empty or no file, such as a pipe.
fn write(certificate: &Path, text: &str) -> Result<(), AuthorityFileError> {
    let unwritable = |error| AuthorityFileError::Unwritable {
        path: certificate.to_owned(),
        error,
    };
    let mut options = OpenOptions::new();
    options.write(true);
    let file = match options.clone().create_new(true).open(certificate) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => options.open(certificate),
        opened => opened,
    };
    let mut file = file.map_err(unwritable)?;
    let found = file.metadata().map_err(unwritable)?;
    if found.is_file() && found.len() > 0 {
        return Err(AuthorityFileError::Exists(certificate.to_owned()));
    }
    file.write_all(text.as_bytes()).map_err(unwritable)
}

/// The bits of a mode for users that are neither the owner nor of the group.
const OTHERS: u32 = 0o007;

/// The common name of an authority that is generated.
const NAME: &str = "root.linkerd.cluster.local";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_authority_is_written_and_stays() {
        let dir = tempfile::tempdir().unwrap();
        let certificate = dir.path().join("anchor.pem");
        let source = AuthoritySource::Generated {
            certificate: certificate.clone(),
        };
        let authority = MeshAuthority::new(source.clone()).unwrap();
        assert!(!certificate.exists());
        authority.publish().unwrap();
        let written = fs::read_to_string(&certificate).unwrap();
        assert_eq!(written, authority.present().trust_anchors());
        assert!(authority.reload().unwrap().is_none());

        let second = MeshAuthority::new(source).unwrap().publish();
        let error = second.unwrap_err().to_string();
        assert!(error.contains("anchor.pem exists"), "{error}");
        assert_eq!(fs::read_to_string(&certificate).unwrap(), written);
        fs::write(&certificate, "").unwrap();
        authority.publish().unwrap();
        assert_eq!(fs::read_to_string(&certificate).unwrap(), written);
        let nowhere = AuthoritySource::Generated {
            certificate: dir.path().join("none/anchor.pem"),
        };
        let authority = MeshAuthority::new(nowhere).unwrap();
        let error = authority.publish().unwrap_err().to_string();
        assert!(
            error.contains("none/anchor.pem: ") && error.contains("--write-trust-anchor"),
            "{error}"
        );
    }

    #[test]
    fn files_that_are_no_authority_are_named_with_the_fix() {
        let dir = tempfile::tempdir().unwrap();
        let (certificates, key) = (dir.path().join("ca.pem"), dir.path().join("ca.key"));
        let refused = || {
            let source = AuthoritySource::Files {
                certificates: certificates.clone(),
                key: key.clone(),
            };
            MeshAuthority::new(source).err().unwrap().to_string()
        };
        assert!(refused().contains("ca.pem: ") && refused().contains("`--trust-anchor`"));
        let authority = Authority::generate("root").unwrap();
        fs::write(&certificates, authority.trust_anchors()).unwrap();
        assert!(refused().contains("ca.key: ") && refused().contains("`--trust-anchor-key`"));
        fs::write(&key, "no key").unwrap();
        for mode in [0o644, 0o604, 0o602] {
            fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
            assert!(refused().contains("`chmod o= "), "{}", refused());
        }
        fs::set_permissions(&key, fs::Permissions::from_mode(0o440)).unwrap();
        assert!(refused().contains("no private key in PEM"), "{}", refused());
    }

    #[test]
    fn names_of_a_controller_are_dns_names() {
        assert!(is_dns_name("control.mesh.test"));
        for name in ["", "a b", "spiffe://a/b", "127.0.0.1:80"] {
            assert!(!is_dns_name(name), "{name}");
        }
    }
}
