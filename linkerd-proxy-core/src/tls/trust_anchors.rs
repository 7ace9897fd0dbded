//! The certificates that the proxy trusts.

use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};
use std::sync::Arc;

/// The trust anchors: certificates of authorities that sign those of the mesh.
#[derive(Clone, Debug)]
pub struct TrustAnchors {
    pub(super) roots: Arc<RootCertStore>,
}

/// A text without usable trust anchors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTrustAnchors {
    /// The text is not PEM.
    #[error("the trust anchors are not PEM: {0}")]
    Pem(String),
    /// There is no certificate in it, or none that can be used.
    #[error("no trust roots in PEM file")]
    Empty,
}

impl TrustAnchors {
    /// Reads certificates in PEM. Those that cannot be used as an anchor are left out.
    pub fn from_pem(pem: &str) -> Result<Self, InvalidTrustAnchors> {
        let certificates: Result<Vec<_>, _> =
            CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
        let certificates =
            certificates.map_err(|error| InvalidTrustAnchors::Pem(error.to_string()))?;
        let mut roots = RootCertStore::empty();
        let (added, ignored) = roots.add_parsable_certificates(certificates);
        if ignored > 0 {
            tracing::warn!(ignored, "certificates of the trust anchors cannot be used");
        }
        match added {
            0 => Err(InvalidTrustAnchors::Empty),
            _ => Ok(Self {
                roots: Arc::new(roots),
            }),
        }
    }
}
