//! The identity of the proxy: its key, its certificate, and its part in the mesh.
//!
//! The control thread requests certificates ([`Certifier`]); all threads see the current one ([`MeshIdentity`]).

mod certifier;
mod documents;
#[cfg(test)]
mod tests;

pub use certifier::{Certifier, CertifierState};
pub use documents::DocumentsError;

use crate::config::IdentityConfig;
use linkerd_proxy_core::{
    endpoint::ServerTls,
    tls::{
        CredentialsIssuer, CredentialsWatch, InvalidTrustAnchors, MeshClient, MeshServer,
        TrustAnchors,
    },
};
use std::sync::Arc;
use tokio::sync::watch;

/// The part of this proxy in the mesh, shared by all threads.
#[derive(Clone, Debug)]
pub struct MeshIdentity {
    issuer: Arc<CredentialsIssuer>,
    credentials: CredentialsWatch,
    server: MeshServer,
}

/// Errors at the start that leave the proxy without an identity.
#[derive(Debug, thiserror::Error)]
pub enum IdentityStartError {
    /// The trust anchors are unusable.
    #[error(transparent)]
    Anchors(#[from] InvalidTrustAnchors),
    /// The key, the request or the token are unusable.
    #[error("Failed to read identity documents: {0}")]
    Documents(#[from] DocumentsError),
    /// TLS cannot be set up.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] linkerd_proxy_core::tls::TlsError),
}

/// Reads the documents of the identity. The first certificate is requested when the [`Certifier`] runs.
pub fn prepare(config: &IdentityConfig) -> Result<(MeshIdentity, Certifier), IdentityStartError> {
    let anchors = TrustAnchors::from_pem(&config.trust_anchors)?;
    let identity = &config.local.identity;
    let key = documents::key_and_request(&config.directory, identity)?;
    documents::token(&config.token_file)?;
    let issuer = Arc::new(CredentialsIssuer::new(config.local.clone(), anchors)?);
    let (publish, credentials) = watch::channel(None);
    let certifier = Certifier::new(config, issuer.clone(), key, publish);
    let mesh = MeshIdentity {
        server: MeshServer::new(config.local.clone(), credentials.clone()),
        issuer,
        credentials,
    };
    Ok((mesh, certifier))
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

    /// TLS to the controller that issues the certificate: without one, as long as there is none.
    pub fn client_of_issuer(&self, server: &ServerTls) -> Result<MeshClient, IdentityStartError> {
        Ok(self.client(server).or_anonymous(&self.issuer)?)
    }
}
