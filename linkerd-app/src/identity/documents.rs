//! Files of the identity: the key and the request for its certificate, and the token.

use linkerd_proxy_core::tls::{Identity, InvalidKey, KeyAndRequest, TlsKey};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Errors of the files.
#[derive(Debug, thiserror::Error)]
pub enum DocumentsError {
    /// A file cannot be read.
    #[error("{}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// A file is empty.
    #[error("{} is empty", .0.display())]
    Empty(PathBuf),
    /// One of two files that belong together is missing.
    #[error("{} is missing beside {}: put both there, or neither, and the proxy makes its own", missing.display(), found.display())]
    OneOfTwo {
        /// The file that is there.
        found: PathBuf,
        /// The file that is not.
        missing: PathBuf,
    },
    /// The key cannot be used.
    #[error("{}: {error}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: InvalidKey,
    },
    /// No key can be made.
    #[error(transparent)]
    Generate(InvalidKey),
}

/// Reads the key and the request in `directory` as at the start. `false`: it has neither, and the proxy makes its own.
pub fn check_key_and_request(
    directory: &Path,
    identity: &Identity,
) -> Result<bool, DocumentsError> {
    key_and_request(directory, identity)?;
    Ok(directory.join(KEY_FILE).exists())
}

/// Reads the token as at the start.
pub fn check_token(path: &Path) -> Result<(), DocumentsError> {
    token(path).map(drop)
}

/// The key and the request in `directory`, or new ones if it has neither.
pub(super) fn key_and_request(
    directory: &Path,
    identity: &Identity,
) -> Result<KeyAndRequest, DocumentsError> {
    let (key_path, request_path) = (directory.join(KEY_FILE), directory.join("csr.der"));
    match (read(&key_path)?, read(&request_path)?) {
        (Some(key), Some(request)) => {
            let key = TlsKey::from_pkcs8(&key).map_err(|error| DocumentsError::Key {
                path: key_path,
                error,
            })?;
            Ok(KeyAndRequest { key, request })
        }
        (None, None) => KeyAndRequest::generate(identity).map_err(DocumentsError::Generate),
        (Some(_), None) => Err(DocumentsError::OneOfTwo {
            found: key_path,
            missing: request_path,
        }),
        (None, Some(_)) => Err(DocumentsError::OneOfTwo {
            found: request_path,
            missing: key_path,
        }),
    }
}

/// The token with which the proxy authenticates itself, as it is now: its file is replaced before it expires.
pub(super) fn token(path: &Path) -> Result<Vec<u8>, DocumentsError> {
    match fs::read(path) {
        Ok(token) if token.is_empty() => Err(DocumentsError::Empty(path.to_owned())),
        Ok(token) => Ok(token),
        Err(error) => Err(unreadable(path, error)),
    }
}

/// The contents of a file; `None` if there is none.
fn read(path: &Path) -> Result<Option<Vec<u8>>, DocumentsError> {
    match fs::read(path) {
        Ok(bytes) if bytes.is_empty() => Err(DocumentsError::Empty(path.to_owned())),
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(path, error)),
    }
}

fn unreadable(path: &Path, error: io::Error) -> DocumentsError {
    DocumentsError::Unreadable {
        path: path.to_owned(),
        error,
    }
}

/// The private key (PKCS #8, RFC 5958).
pub const KEY_FILE: &str = "key.p8";
