//! The authority of a mesh without a cluster: from files, or generated.

use linkerd_control::{Authority, AuthorityError};
use linkerd_proxy_core::tls::Identity;
use std::{
    cell::RefCell,
    fs,
    io::{self, Write},
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
        /// The file, which must not have another authority's certificate.
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
    /// The file has another certificate.
    #[error("{}: it has the certificate of another authority, which a mesh may trust; remove the file, or name another one with `--write-trust-anchor`", path.display())]
    Occupied { path: PathBuf },
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
    /// Reads the files, or generates an authority, whose certificate is written by [`publish`](Self::publish).
    pub(super) fn new(source: AuthoritySource) -> Result<Self, AuthorityFileError> {
        let authority = match &source {
            AuthoritySource::Files { certificates, key } => read(certificates, key)?,
            AuthoritySource::Generated { certificate } => generate(certificate)?,
        };
        Ok(Self {
            source,
            present: RefCell::new(Arc::new(authority)),
        })
    }

    /// Writes the certificate of an authority that was generated, unless there is one of another.
    pub(super) fn publish(&self) -> Result<(), AuthorityFileError> {
        let AuthoritySource::Generated { certificate } = &self.source else {
            return Ok(());
        };
        let file = fs::File::create_new(certificate);
        let written =
            file.and_then(|mut file| file.write_all(self.present().trust_anchors().as_bytes()));
        written.map_err(|error| unwritable(certificate, error))
    }

    /// The authority.
    pub(super) fn present(&self) -> Arc<Authority> {
        self.present.borrow().clone()
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
        fs::read_to_string(path).map_err(|error| AuthorityFileError::Unreadable {
            option,
            path: path.to_owned(),
            error,
        })
    };
    let (anchors, private) = (
        text("--trust-anchor", certificates)?,
        text("--trust-anchor-key", key)?,
    );
    Authority::from_pem(&anchors, &private).map_err(|error| AuthorityFileError::Unusable {
        certificates: certificates.to_owned(),
        key: key.to_owned(),
        error,
    })
}

/// A new authority. Fails where its certificate cannot be written later.
fn generate(certificate: &Path) -> Result<Authority, AuthorityFileError> {
    if certificate.exists() {
        let path = certificate.to_owned();
        return Err(AuthorityFileError::Occupied { path });
    }
    let directory = certificate
        .parent()
        .filter(|path| !path.as_os_str().is_empty());
    if let Some(Err(error)) = directory.map(fs::metadata) {
        return Err(unwritable(certificate, error));
    }
    Authority::generate(NAME).map_err(AuthorityFileError::Generate)
}

fn unwritable(certificate: &Path, error: io::Error) -> AuthorityFileError {
    let path = certificate.to_owned();
    match error.kind() {
        io::ErrorKind::AlreadyExists => AuthorityFileError::Occupied { path },
        _ => AuthorityFileError::Unwritable { path, error },
    }
}

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
        assert!(!certificate.exists(), "the port is not taken yet");
        authority.publish().unwrap();
        let written = fs::read_to_string(&certificate).unwrap();
        assert_eq!(written, authority.present().trust_anchors());
        assert!(authority.reload().unwrap().is_none());
        let again = MeshAuthority::new(source).err().unwrap().to_string();
        assert!(again.contains("remove the file"), "{again}");
        assert!(authority.publish().is_err());
        assert_eq!(fs::read_to_string(&certificate).unwrap(), written);
        let nowhere = AuthoritySource::Generated {
            certificate: dir.path().join("none/anchor.pem"),
        };
        let error = MeshAuthority::new(nowhere).err().unwrap().to_string();
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
