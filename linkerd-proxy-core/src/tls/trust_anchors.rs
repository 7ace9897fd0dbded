//! The certificates that the proxy trusts.

use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};
use std::sync::Arc;

/// The trust anchors: certificates of the authorities of the mesh. Equal if they are the same, in any order.
#[derive(Clone, Debug)]
pub struct TrustAnchors {
    pub(super) roots: Arc<RootCertStore>,
}

/// A text or a bundle without usable trust anchors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTrustAnchors {
    /// The text is not PEM.
    #[error("the trust anchors are not PEM: {0}")]
    Pem(String),
    /// The text has no certificate, or none that can be used.
    #[error("no trust roots in PEM file")]
    Empty,
    /// The bundle has no certificate that can be used.
    #[error("the bundle has no certificate that can be used as a trust anchor")]
    EmptyBundle,
}

impl TrustAnchors {
    /// No anchors: no peer is trusted.
    pub fn none() -> Self {
        Self {
            roots: Arc::new(RootCertStore::empty()),
        }
    }

    /// Reads certificates in PEM. Certificates that cannot be used as an anchor are left out.
    pub fn from_pem(pem: &str) -> Result<Self, InvalidTrustAnchors> {
        let certificates: Result<Vec<_>, _> =
            CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
        let certificates =
            certificates.map_err(|error| InvalidTrustAnchors::Pem(error.to_string()))?;
        Self::usable(certificates).ok_or(InvalidTrustAnchors::Empty)
    }

    /// Anchors of a bundle. Certificates that cannot be used as an anchor are left out.
    pub fn from_certificates(
        certificates: Vec<CertificateDer<'static>>,
    ) -> Result<Self, InvalidTrustAnchors> {
        Self::usable(certificates).ok_or(InvalidTrustAnchors::EmptyBundle)
    }

    /// These anchors and `others`.
    pub fn and(&self, others: &Self) -> Self {
        let mut roots = RootCertStore::clone(&self.roots);
        let missing = others.roots.roots.iter();
        let missing = missing.filter(|anchor| !self.roots.roots.contains(anchor));
        roots.roots.extend(missing.cloned());
        Self {
            roots: Arc::new(roots),
        }
    }

    /// The number of anchors.
    pub fn len(&self) -> usize {
        self.roots.len()
    }

    /// Whether there are no anchors.
    pub fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    fn usable(certificates: Vec<CertificateDer<'static>>) -> Option<Self> {
        let mut roots = RootCertStore::empty();
        let (added, ignored) = roots.add_parsable_certificates(certificates);
        if ignored > 0 {
            tracing::warn!(ignored, "certificates of the trust anchors cannot be used");
        }
        (added > 0).then(|| Self {
            roots: Arc::new(roots),
        })
    }
}

impl PartialEq for TrustAnchors {
    fn eq(&self, other: &Self) -> bool {
        let (these, those) = (&self.roots.roots, &other.roots.roots);
        these.iter().all(|anchor| those.contains(anchor))
            && those.iter().all(|anchor| these.contains(anchor))
    }
}

impl Eq for TrustAnchors {}
