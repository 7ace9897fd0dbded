//! The identity of the proxy: its key, its certificate, and its part in the mesh.
//!
//! The control thread requests certificates of an identity controller ([`Certifier`]), or follows those of SPIRE
//! ([`SvidSubscriber`]); all threads see the current one ([`MeshIdentity`]).

mod anchors;
mod certifier;
mod credentials;
mod documents;
mod retry_plan;
mod spire;
#[cfg(test)]
mod tests;
mod workload_api;

pub use anchors::{AnchorsLoadError, anchors_text};
pub use certifier::Certifier;
pub use credentials::ProxyCredentials;
pub use documents::{DocumentsError, KEY_FILE, check_key_and_request, check_token};
pub use spire::SvidSubscriber;
pub use workload_api::WorkloadApi;

use crate::config::{CertifyConfig, IdentityConfig, IssuerConfig, SpireConfig};
use anchors::ConfiguredAnchors;
use credentials::CredentialsParts;
use linkerd_proxy_core::{
    endpoint::ServerTls,
    tls::{CredentialsPublisher, CredentialsWatch, MeshClient, MeshServer},
};

/// The part of this proxy in the mesh, shared by all threads.
#[derive(Clone, Debug)]
pub struct MeshIdentity {
    credentials: CredentialsWatch,
    server: MeshServer,
}

/// The renewal of the certificate, before it runs.
#[derive(Debug)]
pub enum CertificateRenewal {
    /// By an identity controller.
    Certify(Box<Certifier>),
    /// By SPIRE.
    Spire(Box<SvidSubscriber>),
}

/// Errors at the start that leave the proxy without an identity.
#[derive(Debug, thiserror::Error)]
pub enum IdentityStartError {
    /// The trust anchors are unusable.
    #[error(transparent)]
    Anchors(#[from] AnchorsLoadError),
    /// The key, the request or the token are unusable.
    #[error("Failed to read identity documents: {0}")]
    Documents(#[from] DocumentsError),
    /// TLS cannot be set up.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] linkerd_proxy_core::tls::TlsError),
}

/// Reads the documents of the identity. The first certificate comes when its renewal runs.
pub fn prepare(
    config: &IdentityConfig,
) -> Result<(MeshIdentity, CertificateRenewal), IdentityStartError> {
    let anchors = ConfiguredAnchors::load(&config.trust_anchors)?;
    let published = CredentialsPublisher::new(config.local.clone(), anchors.anchors().clone());
    let (publisher, credentials) = published?;
    let mesh = MeshIdentity {
        server: MeshServer::new(config.local.clone(), credentials.clone()),
        credentials,
    };
    let parts = |issuer| CredentialsParts {
        publisher,
        anchors,
        issuer,
    };
    let renewal = match &config.issuer {
        IssuerConfig::Controller(certify) => {
            let CertifyConfig {
                controller,
                directory,
                token_file,
                refresh,
            } = &**certify;
            let key = documents::key_and_request(directory, &config.local.identity)?;
            documents::token(token_file)?;
            CertificateRenewal::Certify(Box::new(Certifier {
                credentials: parts(format!("identity controller {}", controller.addr)),
                controller: controller.clone(),
                key,
                token_file: token_file.clone(),
                refresh: *refresh,
            }))
        }
        IssuerConfig::Spire(SpireConfig { socket, backoff }) => {
            CertificateRenewal::Spire(Box::new(SvidSubscriber {
                credentials: parts(format!("workload API {}", socket.display())),
                socket: socket.clone(),
                backoff: *backoff,
            }))
        }
    };
    Ok((mesh, renewal))
}

impl CertificateRenewal {
    /// The condition of readiness that the first certificate meets.
    pub fn condition(&self) -> &'static str {
        match self {
            Self::Certify(_) => "the first certificate from the identity controller",
            Self::Spire(_) => "the first SVID from the workload API",
        }
    }
}

impl MeshIdentity {
    /// TLS with clients that ask for this proxy.
    pub fn server(&self) -> &MeshServer {
        &self.server
    }

    /// TLS to an endpoint.
    pub fn client(&self, server: &ServerTls) -> MeshClient {
        MeshClient::new(self.credentials.clone(), server)
    }

    /// TLS to the controller that issues the certificate, without a client certificate until the first is issued.
    pub fn client_of_issuer(&self, server: &ServerTls) -> MeshClient {
        self.client(server).or_anonymous()
    }
}
