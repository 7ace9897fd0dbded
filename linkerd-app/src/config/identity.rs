//! Settings of the proxy's identity.

use super::ControlAddr;
use linkerd_proxy_core::{
    Backoff,
    tls::{LocalIdentity, RefreshBounds},
};
use std::path::PathBuf;

/// The identity of the proxy, and the source of its certificate.
#[derive(Clone, Debug, PartialEq)]
pub struct IdentityConfig {
    /// The names of this proxy in the mesh.
    pub local: LocalIdentity,
    /// Certificates of the trusted authorities.
    pub trust_anchors: AnchorsConfig,
    /// The issuer of the certificate.
    pub issuer: IssuerConfig,
}

/// The issuer of the proxy's certificate.
#[derive(Clone, Debug, PartialEq)]
pub enum IssuerConfig {
    /// An identity controller.
    Controller(Box<CertifyConfig>),
    /// SPIRE, by its workload API.
    Spire(SpireConfig),
}

/// Requests for certificates to an identity controller.
#[derive(Clone, Debug, PartialEq)]
pub struct CertifyConfig {
    /// The identity controller.
    pub controller: ControlAddr,
    /// The directory of an existing key (`key.p8`) and request (`csr.der`).
    pub directory: PathBuf,
    /// The file of the token with which the proxy authenticates itself.
    pub token_file: PathBuf,
    /// Bounds of the time between two certificates.
    pub refresh: RefreshBounds,
}

/// Certificates of SPIRE.
#[derive(Clone, Debug, PartialEq)]
pub struct SpireConfig {
    /// The socket of the workload API.
    pub socket: PathBuf,
    /// Pauses between two calls.
    pub backoff: Backoff,
}

/// The source of the trust anchors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnchorsConfig {
    /// Certificates in PEM, for as long as the proxy runs.
    Pem(String),
    /// A file of certificates in PEM, which is read again when it changes.
    File(PathBuf),
    /// None but the trust bundle of the workload API.
    Bundle,
}

impl IdentityConfig {
    /// The identity controller, if that issues the certificate.
    pub fn controller(&self) -> Option<&ControlAddr> {
        match &self.issuer {
            IssuerConfig::Controller(certify) => Some(&certify.controller),
            IssuerConfig::Spire(_) => None,
        }
    }
}
