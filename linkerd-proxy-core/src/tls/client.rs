//! TLS to endpoints and controllers.
//!
//! - **Waits for** the first certificate of this proxy; the caller limits the time, as it does for the whole attempt.
//! - **Fails as** `NoCertificate`, `TlsFailed`, `IdentityMismatch`.

use super::{
    CertificateDetails, Credentials, CredentialsWatch, Identity, TransportHeader,
    credentials::names, stream::EncryptedStream,
};
use crate::{Error, Reason, transport::TransportStream};
use rustls::pki_types::{InvalidDnsNameError, ServerName};
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
}

impl MeshClient {
    /// A client of the endpoint with this identity, whose proxy is asked for as `server_name` (SNI).
    pub fn new(
        credentials: CredentialsWatch,
        identity: Identity,
        server_name: &str,
    ) -> Result<Self, InvalidDnsNameError> {
        Ok(Self {
            credentials,
            identity,
            server_name: ServerName::try_from(server_name.to_owned())?,
            header: None,
        })
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

    /// Encrypts a connection. Cancel safe, as nothing else has the connection.
    pub async fn encrypt(&self, stream: TransportStream) -> Result<TransportStream, Error> {
        let credentials = self.credentials().await?;
        let config = match self.header {
            None => &credentials.client,
            Some(_) => &credentials.client_with_header,
        };
        let connecting = TlsConnector::from(config.clone());
        let connecting = connecting.connect(self.server_name.clone(), stream);
        let mut stream = connecting.await.map_err(|error| self.failed(error))?;
        let session = stream.get_ref().1;
        self.verify_identity(session.peer_certificates().unwrap_or_default())?;
        let agreed = session.alpn_protocol().is_some();
        if let Some(header) = self.header.as_ref().filter(|_| agreed) {
            let sent = stream.write_all(&header.encode()).await;
            sent.map_err(|error| self.failed(error))?;
        }
        Ok(TransportStream::other(EncryptedStream(stream.into())))
    }

    /// The credentials of this proxy, as soon as there are any.
    async fn credentials(&self) -> Result<Arc<Credentials>, Error> {
        let mut watch = self.credentials.clone();
        let present = watch.wait_for(Option::is_some).await;
        let gone = || Error::new(Reason::NoCertificate);
        let credentials = present.map_err(|_| gone())?.clone().ok_or_else(gone)?;
        match credentials.validity.problem(SystemTime::now()) {
            None => Ok(credentials),
            Some(problem) => {
                let detail = format!("this proxy cannot show who it is: {problem}");
                Err(gone().detail(detail))
            }
        }
    }

    fn verify_identity(
        &self,
        chain: &[rustls::pki_types::CertificateDer<'_>],
    ) -> Result<(), Error> {
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
