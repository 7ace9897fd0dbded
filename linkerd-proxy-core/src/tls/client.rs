//! TLS to endpoints and controllers.
//!
//! - **Waits for** the first certificate of this proxy; the caller limits the time, as for the whole attempt.
//! - **Fails as** `NoCertificate`, `TlsFailed`, `IdentityMismatch`.

use super::{
    CertificateDetails, CredentialsWatch, EndpointTrust, Identity, PeerChain, TransportHeader,
    credentials::names,
    publisher::{PresentCredentials, first_credentials},
    stream::EncryptedStream,
};
use crate::{
    Error, Reason,
    endpoint::ServerTls,
    transport::{Duplex, TransportStream},
};
use rustls::{
    ClientConfig,
    pki_types::{CertificateDer, ServerName},
};
use std::{io, sync::Arc, time::SystemTime};
use tokio::io::AsyncWriteExt;
use tokio_rustls::TlsConnector;

/// Encrypts connections to one endpoint, and verifies its identity.
#[derive(Clone, Debug)]
pub struct MeshClient {
    credentials: CredentialsWatch,
    identity: Identity,
    server_name: ServerName<'static>,
    header: Option<Arc<TransportHeader>>,
    may_be_anonymous: bool,
}

impl MeshClient {
    /// A client of an endpoint.
    pub fn new(credentials: CredentialsWatch, server: &ServerTls) -> Self {
        Self {
            credentials,
            identity: server.identity.clone(),
            server_name: ServerName::DnsName(server.server_name.clone()),
            header: None,
            may_be_anonymous: false,
        }
    }

    /// A client that shows no certificate as long as this proxy has none: for the controller that issues the certificate.
    pub fn or_anonymous(self) -> Self {
        Self {
            may_be_anonymous: true,
            ..self
        }
    }

    /// A client whose connections begin with a transport header, if the peer agrees.
    pub fn with_header(self, header: Option<TransportHeader>) -> Self {
        Self {
            header: header.map(Arc::new),
            ..self
        }
    }

    /// The identity of the endpoint.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Whether there is a certificate to show, or none is needed.
    pub fn is_ready(&self) -> bool {
        self.may_be_anonymous || self.credentials.borrow().credentials.is_some()
    }

    /// Waits until [`is_ready`](Self::is_ready). Cancel safe. Fails as `NoCertificate` if the certificate has expired.
    pub async fn ready(&self) -> Result<(), Error> {
        self.config().await.map(drop)
    }

    /// Encrypts a connection. Cancel safe, as the connection is dropped with the future.
    pub async fn encrypt(&self, stream: TransportStream) -> Result<TransportStream, Error> {
        let connecting = TlsConnector::from(self.config().await?);
        let socket = stream.peek().map(|peek| peek.downgrade());
        let connecting = connecting.connect(self.server_name.clone(), stream);
        let mut stream = connecting.await.map_err(|error| self.failed(error))?;
        let session = stream.get_ref().1;
        let chain = session.peer_certificates().unwrap_or_default();
        self.verify_identity(chain)?;
        let now = SystemTime::now();
        let trust = PeerChain::new(chain)
            .and_then(|chain| EndpointTrust::new(chain, &self.credentials, now, socket));
        let agreed = session.alpn_protocol().is_some();
        if let Some(header) = self.header.as_ref().filter(|_| agreed) {
            let sent = stream.write_all(&header.encode()).await;
            sent.map_err(|error| self.failed(error))?;
        }
        Ok(TransportStream::other(EncryptedStream::of_endpoint(
            stream, trust,
        )))
    }

    /// The configuration with the certificate of this proxy, once there is one; or without it, if none is needed.
    async fn config(&self) -> Result<Arc<ClientConfig>, Error> {
        if !self.may_be_anonymous {
            first_credentials(&self.credentials).await?;
        }
        let PresentCredentials {
            credentials,
            anonymous,
        } = self.credentials.borrow().clone();
        let now = SystemTime::now();
        let problem = credentials.as_ref().and_then(|it| it.validity.problem(now));
        match (credentials, problem) {
            (Some(credentials), None) => Ok(credentials.client(self.header.is_some()).clone()),
            _ if self.may_be_anonymous => Ok(anonymous),
            (_, problem) => {
                let problem = problem.unwrap_or_default();
                let detail = format!("this proxy cannot show who it is: {problem}");
                Err(Error::new(Reason::NoCertificate).detail(detail))
            }
        }
    }

    fn verify_identity(&self, chain: &[CertificateDer<'_>]) -> Result<(), Error> {
        let leaf = chain.first().map(CertificateDetails::read);
        let found = match leaf {
            Some(Ok(details)) => details.identities,
            Some(Err(_)) | None => Vec::new(),
        };
        if found.contains(&self.identity) {
            return Ok(());
        }
        let (found, expected) = (names(&found), &self.identity);
        let detail = format!("the endpoint has shown {found}, and {expected} is expected");
        Err(Error::new(Reason::IdentityMismatch).detail(detail))
    }

    fn failed(&self, error: io::Error) -> Error {
        let detail = format!("the TLS handshake with {} failed: {error}", self.identity);
        Error::new(Reason::TlsFailed).detail(detail).source(error)
    }
}
