//! The authority of the quickstart's mesh, and the documents with which its sidecars ask for certificates.

use super::temporary_file::TemporaryFile;
use linkerd_control::{Authority, Controller};
use linkerd_proxy_core::BoxError;
use std::{fs::File, io::Write};

/// The documents of the sidecars: each asks for its certificate with them.
#[derive(Clone, Debug)]
pub(super) struct MeshIdentity {
    /// The authority's certificate, in PEM.
    pub(super) trust_anchors: String,
    /// The path of the token.
    pub(super) token: String,
    /// A directory without keys, so that each sidecar makes its own.
    pub(super) directory: String,
}

/// Gives the controller a new authority. The token is removed when the second value is dropped.
pub(super) fn issue_certificates(
    controller: &Controller,
) -> Result<(MeshIdentity, TemporaryFile), BoxError> {
    let authority = Authority::generate(NAME)?;
    let trust_anchors = authority.trust_anchors().to_owned();
    controller.identity().authority(authority);
    let directory = std::env::temp_dir();
    let name = format!("linkerd-quickstart-{:016x}", rand::random::<u64>());
    let token = directory.join(format!("{name}.token"));
    let text = |path: &std::path::Path| match path.to_str() {
        Some(path) => Ok(path.to_owned()),
        None => Err(format!("{} is not UTF-8; set TMPDIR", path.display())),
    };
    let written = File::create_new(&token).and_then(|mut file| file.write_all(TOKEN));
    written.map_err(|error| {
        let token = token.display();
        format!("{error}: {token} cannot be written; set TMPDIR to another directory")
    })?;
    let identity = MeshIdentity {
        trust_anchors,
        token: text(&token)?,
        directory: text(&directory.join(name))?,
    };
    Ok((identity, TemporaryFile(token)))
}

/// The name of the authority.
const NAME: &str = "root.mesh.local";

/// A proxy without a token does not start. The quickstart's controller, which is reached on loopback only, checks none.
const TOKEN: &[u8] = b"quickstart";
