//! Sources of certificates.

use super::{Identity, X509Svid};
use crate::subscription::Call;
use futures::future::LocalBoxFuture;
use rustls::pki_types::CertificateDer;
use std::time::SystemTime;

/// A source of certificates for this proxy: an identity controller.
pub trait CertificateSource {
    /// Requests a certificate.
    fn certify(
        &self,
        request: CertificateRequest,
    ) -> LocalBoxFuture<'_, Result<IssuedCertificate, CertifyError>>;
}

/// A source of certificates with their keys and trust anchors: a SPIFFE workload API.
pub trait SvidSource {
    /// Opens the stream of this workload's SVIDs. Each message replaces the previous ones.
    fn svids(&self) -> Call<Vec<X509Svid>>;
}

/// A request for a certificate. Logs do not show its token.
pub struct CertificateRequest {
    /// The identity of the proxy.
    pub identity: Identity,
    /// The token that authenticates the proxy.
    pub token: Vec<u8>,
    /// The certificate signing request (PKCS#10), in DER.
    pub request: Vec<u8>,
}

/// An issued certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuedCertificate {
    /// The certificate, and the intermediates from it to a trust anchor.
    pub chain: Vec<CertificateDer<'static>>,
    /// The end of its validity.
    pub valid_until: SystemTime,
}

/// The reason why no certificate was issued.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertifyError {
    /// The controller did not answer, or refused.
    #[error("{0}")]
    Refused(String),
    /// The answer has no end of validity.
    #[error("identity certification missing expiration")]
    NoExpiry,
}

impl std::fmt::Debug for CertificateRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CertificateRequest")
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}
