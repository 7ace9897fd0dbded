//! A handshake that only checks the certificate of a server: for checks before the proxy runs.
//!
//! - **Waits for** the server; the caller limits the time.
//! - **Fails as** [`ProbeError`], which names the cause, where a connection of the proxy would fail as `TlsFailed`.

use super::{
    CertificateDetails, Identity, TrustAnchors, credentials::names, provider::provider,
    verify::AnchoredServer,
};
use crate::endpoint::ServerTls;
use parking_lot::Mutex;
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    pki_types::{CertificateDer, ServerName, UnixTime},
    version::TLS13,
};
use std::{io, sync::Arc, time::SystemTime};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

/// The result of a handshake.
#[derive(Debug)]
pub struct ServerProbe {
    /// The leaf certificate of the server, if the server has shown a readable one.
    pub certificate: Option<CertificateDetails>,
    /// Whether a connection of the proxy would be encrypted.
    pub verified: Result<(), ProbeError>,
}

/// The reasons why a server is not trusted.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The certificate is not valid at this time, by the clock of this host.
    #[error("{0}")]
    Time(String),
    /// The certificate is that of another server.
    #[error("the server has shown {found}, and {expected} is expected")]
    Name {
        /// The names in the certificate.
        found: String,
        /// The expected identity.
        expected: Identity,
    },
    /// The chain leads to no trust anchor, or a part of it cannot be used.
    #[error("the trust anchors do not verify the server's certificate: {0}")]
    Untrusted(Error),
    /// The handshake ended before a certificate was shown, or after it was verified.
    #[error("the TLS handshake failed: {0}")]
    Handshake(#[from] io::Error),
    /// TLS cannot be set up on this side.
    #[error("TLS cannot be set up: {0}")]
    Setup(#[from] Error),
}

impl ServerProbe {
    /// Makes a handshake over `stream` without a certificate of this proxy, which has none before the first is issued, and
    /// verifies the server as [`MeshClient`](super::MeshClient) does.
    pub async fn handshake(
        stream: impl AsyncRead + AsyncWrite + Unpin,
        anchors: &TrustAnchors,
        server: &ServerTls,
    ) -> Self {
        let verifier = Arc::new(RecordingVerifier {
            inner: AnchoredServer {
                roots: anchors.roots.clone(),
                algorithms: provider().signature_verification_algorithms,
            },
            shown: Mutex::default(),
        });
        let config = match config(verifier.clone()) {
            Ok(config) => config,
            Err(error) => return Self::failed(error.into()),
        };
        let name = ServerName::DnsName(server.server_name.clone());
        let connector = TlsConnector::from(Arc::new(config));
        let connected = connector.connect(name, stream).await;
        let shown = verifier.shown.lock().take();
        let Some((leaf, verified)) = shown else {
            let no_certificate = || io::Error::other("the server has shown no certificate");
            let error = connected.err().unwrap_or_else(no_certificate);
            return Self::failed(error.into());
        };
        let certificate = CertificateDetails::read(&leaf).ok();
        let verified = judge(certificate.as_ref(), verified, server);
        let connected = connected.map(drop).map_err(ProbeError::from);
        Self {
            certificate,
            verified: verified.and(connected),
        }
    }

    fn failed(error: ProbeError) -> Self {
        Self {
            certificate: None,
            verified: Err(error),
        }
    }
}

/// The cause that an operator can act on, if several apply.
fn judge(
    certificate: Option<&CertificateDetails>,
    verified: Result<(), Error>,
    server: &ServerTls,
) -> Result<(), ProbeError> {
    if let Some(certificate) = certificate {
        let problem = certificate.validity.problem(SystemTime::now());
        problem.map_or(Ok(()), |problem| Err(ProbeError::Time(problem)))?;
    }
    verified.map_err(ProbeError::Untrusted)?;
    let found = certificate.map_or(&[][..], |certificate| &certificate.identities);
    match found.contains(&server.identity) {
        true => Ok(()),
        false => Err(ProbeError::Name {
            found: names(found),
            expected: server.identity.clone(),
        }),
    }
}

fn config(verifier: Arc<RecordingVerifier>) -> Result<ClientConfig, Error> {
    Ok(ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth())
}

/// A leaf certificate, and the result of its verification.
type ShownCertificate = (CertificateDer<'static>, Result<(), Error>);

/// Verifies as the proxy does, and keeps the certificate even if the verification fails.
#[derive(Debug)]
struct RecordingVerifier {
    inner: AnchoredServer,
    shown: Mutex<Option<ShownCertificate>>,
}

impl ServerCertVerifier for RecordingVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let inner = &self.inner;
        let verified = inner.verify_server_cert(end_entity, intermediates, server_name, ocsp, now);
        let result = verified.as_ref().map(drop).map_err(Error::clone);
        *self.shown.lock() = Some((end_entity.clone().into_owned(), result));
        verified
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let inner = &self.inner;
        inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let inner = &self.inner;
        inner.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::Validity;
    use std::time::Duration;

    #[test]
    fn a_wrong_clock_is_named_before_all_that_follows_from_it() {
        let now = SystemTime::now();
        let hour = Duration::from_secs(3600);
        let server = ServerTls {
            identity: "web.mesh.local".parse().unwrap(),
            server_name: "web.mesh.local".to_owned().try_into().unwrap(),
        };
        for (from, state) in [
            (now + hour, "is not valid yet"),
            (now - 3 * hour, "has expired"),
        ] {
            let certificate = CertificateDetails {
                identities: vec![server.identity.clone()],
                validity: Validity {
                    not_before: from,
                    not_after: from + hour,
                },
            };
            let refused = Err(Error::General("refused".to_owned()));
            let error = judge(Some(&certificate), refused, &server).unwrap_err();
            let text = error.to_string();
            assert!(matches!(error, ProbeError::Time(_)), "{text}");
            assert!(
                text.contains(state) && text.contains("the clock of this host says"),
                "{text}"
            );
        }
    }
}
