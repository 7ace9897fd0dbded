//! The identities of the two proxies of a meshed workload, and the authority that all of them trust.

use crate::error::{Context, Error, Result};
use linkerd_control::Authority;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// An authority, and files with certificates for proxies that do not request one.
#[derive(Debug)]
pub struct Identities {
    /// The authority.
    pub authority: Arc<Authority>,
    directory: PathBuf,
}

/// The proxy of the clients.
pub const WEB: &str = "web.bench.serviceaccount.identity.linkerd.cluster.local";
/// The proxy of the backends.
pub const API: &str = "api.bench.serviceaccount.identity.linkerd.cluster.local";

impl Identities {
    /// Creates the identities, and writes their files below a directory.
    pub fn new(scratch: &Path) -> Result<Self> {
        let directory = scratch.join("identities");
        let authority = Authority::generate("bench").map_err(failed)?;
        let write = |path: PathBuf, text: &str| {
            fs::write(&path, text).context(path.display().to_string())?;
            // Proxies run as another user; these keys protect nothing.
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).context("identities")
        };
        for name in [WEB, API] {
            let of_proxy = directory.join(name);
            fs::create_dir_all(&of_proxy).context("identities")?;
            // A proxy that makes its own key writes here.
            fs::set_permissions(&of_proxy, fs::Permissions::from_mode(0o777))
                .context("identities")?;
            let issued = authority.issue(name, LIFETIME).map_err(failed)?;
            write(of_proxy.join("anchors.pem"), authority.trust_anchors())?;
            write(of_proxy.join("certificate.pem"), &issued.certificate_pem)?;
            write(of_proxy.join("key.pem"), &issued.key_pem)?;
        }
        write(directory.join("token"), "token")?;
        Ok(Self {
            authority: Arc::new(authority),
            directory,
        })
    }

    /// The directory of a proxy: `anchors.pem`, `certificate.pem` and `key.pem`.
    pub fn directory(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The file of the token with which a proxy asks for a certificate.
    pub fn token(&self) -> PathBuf {
        self.directory.join("token")
    }
}

/// Longer than any benchmark.
const LIFETIME: Duration = Duration::from_secs(24 * 3600);

fn failed(error: linkerd_control::AuthorityError) -> Error {
    Error::Other(format!("the authority of the benchmark: {error}"))
}
