//! TLS of clients that connect to this proxy by name.
//!
//! - **Waits for** the first certificate of this proxy, and for the client; the caller limits the time.
//! - **Fails as** `NoCertificate`, `ClientTlsFailed`.

use super::{
    CertificateDetails, ClientHello, CredentialsWatch, Identity, LocalIdentity, PeerChain,
    TlsStatus, publisher::first_credentials, stream::EncryptedStream,
};
use crate::{Error, Reason, transport::TransportStream};
use rustls::pki_types::CertificateDer;
use std::{io, time::SystemTime};
use tokio_rustls::StartHandshake;

/// Terminates the TLS of clients.
#[derive(Clone, Debug)]
pub struct MeshServer {
    local: LocalIdentity,
    credentials: CredentialsWatch,
}

/// A connection whose TLS the proxy has terminated.
#[derive(Debug)]
pub struct Terminated {
    /// The connection.
    pub stream: TransportStream,
    /// The client's identity, in a status.
    pub status: TlsStatus,
    /// The client's certificates, if it has shown any.
    pub peer: Option<PeerChain>,
    /// Whether a transport header follows, as was agreed in the handshake.
    pub has_header: bool,
}

impl MeshServer {
    /// Terminates connections that ask for the name of `local`.
    pub fn new(local: LocalIdentity, credentials: CredentialsWatch) -> Self {
        Self { local, credentials }
    }

    /// Whether there is a certificate to show.
    pub fn has_certificate(&self) -> bool {
        self.credentials.borrow().credentials.is_some()
    }

    /// Waits until there is a certificate to show. Cancel safe. Fails as `NoCertificate` if there never will be.
    pub async fn certified(&self) -> Result<(), Error> {
        first_credentials(&self.credentials).await.map(drop)
    }

    /// The credentials, as they change.
    pub fn credentials(&self) -> &CredentialsWatch {
        &self.credentials
    }

    /// Whether a client asks for this proxy; otherwise its TLS is passed through.
    pub fn is_asked_for(&self, hello: &ClientHello) -> bool {
        hello.server_name == *self.local.server_name
    }

    /// Terminates the TLS of a client's connection, from which `hello` was read. With `asks_for_header` the client must
    /// agree on a transport header.
    pub async fn terminate(
        &self,
        hello: ClientHello,
        stream: TransportStream,
        asks_for_header: bool,
    ) -> Result<Terminated, Error> {
        let credentials = first_credentials(&self.credentials).await?;
        let config = credentials.server(asks_for_header);
        let handshake = StartHandshake::from_parts(hello.accepted, stream);
        let handshake = handshake.into_stream(config.clone());
        let stream = handshake.await.map_err(failed)?;
        let session = stream.get_ref().1;
        let identity = client_identity(session.peer_certificates().unwrap_or_default())?;
        Ok(Terminated {
            has_header: session.alpn_protocol().is_some(),
            status: TlsStatus::Meshed(identity),
            peer: PeerChain::new(session.peer_certificates().unwrap_or_default()),
            stream: TransportStream::other(EncryptedStream::of_client(stream)),
        })
    }
}

/// The first identity in the verified certificate of a client. A resumed session was verified when it began, so the
/// certificate may have expired since.
fn client_identity(chain: &[CertificateDer<'_>]) -> Result<Option<Identity>, Error> {
    let Some(leaf) = chain.first() else {
        return Ok(None);
    };
    let invalid = |detail: String| Error::new(Reason::ClientTlsFailed).detail(detail);
    let details = CertificateDetails::read(leaf).map_err(|error| invalid(error.to_string()))?;
    match details.validity.problem(SystemTime::now()) {
        Some(problem) => Err(invalid(problem)),
        None => Ok(details.identities.into_iter().next()),
    }
}

fn failed(error: io::Error) -> Error {
    let detail = format!("the client's TLS handshake failed: {error}");
    Error::new(Reason::ClientTlsFailed)
        .detail(detail)
        .source(error)
}
