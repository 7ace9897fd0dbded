//! The certificate that the proxy shows, and the TLS configurations with it.
//!
//! A session can be resumed only under the anchors that verified it: each issuer has its own ticket keys, and each set of
//! credentials its own session store.

use super::{
    CertificateDetails, Identity, TlsError, TlsKey, TrustAnchors, Validity, provider::provider,
    transport_header::ALPN, verify::AnchoredServer,
};
use rustls::{
    ClientConfig, ConfigBuilder, ServerConfig,
    client::{Resumption, WantsClientCert, danger::ServerCertVerifier},
    crypto::aws_lc_rs::Ticketer,
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::{ProducesTickets, WebPkiClientVerifier, danger::ClientCertVerifier},
    sign::{CertifiedKey, SingleCertAndKey},
    version::TLS13,
};
use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::SystemTime,
};

/// The names of this proxy in the mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalIdentity {
    /// The identity in its certificate.
    pub identity: Identity,
    /// The server name (SNI) of connections that the proxy terminates.
    pub server_name: Arc<str>,
}

/// Issues credentials under one set of trust anchors: holds everything except the certificate, which changes more often.
#[derive(Debug)]
pub struct CredentialsIssuer {
    /// The names of this proxy.
    pub local: LocalIdentity,
    /// The trusted authorities.
    pub anchors: TrustAnchors,
    tickets: Arc<dyn ProducesTickets>,
}

/// A certificate, and the TLS configurations with it.
///
/// The same settings everywhere: TLS 1.3, the certificate of this proxy, trust in the anchors alone.
#[derive(Debug)]
pub struct Credentials {
    /// The names of this proxy.
    pub local: LocalIdentity,
    /// The period of validity of the certificate.
    pub validity: Validity,
    /// Connections to endpoints.
    client: Arc<ClientConfig>,
    /// Connections to endpoints that begin with a transport header.
    client_with_header: Arc<ClientConfig>,
    /// Connections from clients, which may show a certificate.
    server: Arc<ServerConfig>,
    /// Connections from clients that must agree on a transport header.
    server_with_header: Arc<ServerConfig>,
    /// Verifies the certificates of clients.
    clients: Arc<dyn ClientCertVerifier>,
    /// Verifies those of servers, except for their names.
    servers: Arc<AnchoredServer>,
    anchors: TrustAnchors,
}

/// A certificate that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InvalidCredentials {
    /// Nothing was issued.
    #[error("there is no certificate")]
    Missing,
    /// The leaf is not a certificate.
    #[error(transparent)]
    Certificate(#[from] super::InvalidCertificate),
    /// The leaf has other names.
    #[error("certificate does not match TLS identity: it is for {found}, not for {expected}")]
    Identity {
        /// The names in the certificate.
        found: String,
        /// The identity of this proxy.
        expected: Identity,
    },
    /// The certificate is not valid at this time.
    #[error("{0}")]
    Time(String),
    /// The chain, the key or the algorithms do not fit.
    #[error("the certificate cannot be used: {0}")]
    Chain(#[from] rustls::Error),
    /// The anchors cannot verify clients.
    #[error("the trust anchors cannot be used: {0}")]
    Anchors(#[from] rustls::server::VerifierBuilderError),
}

impl CredentialsIssuer {
    /// An issuer for a proxy with these names. Fails without a source of randomness.
    pub fn new(local: LocalIdentity, anchors: TrustAnchors) -> Result<Self, TlsError> {
        Ok(Self {
            local,
            anchors,
            tickets: Ticketer::new()?,
        })
    }

    /// TLS to trusted servers, without a certificate of this proxy.
    pub(super) fn anonymous_client(&self) -> Result<Arc<ClientConfig>, rustls::Error> {
        let verifier = self.verifier();
        let config = client_config(verifier)?.with_no_client_auth();
        Ok(Arc::new(config))
    }

    fn verifier(&self) -> Arc<AnchoredServer> {
        Arc::new(AnchoredServer {
            roots: self.anchors.roots.clone(),
            algorithms: provider().signature_verification_algorithms,
        })
    }

    /// Credentials with `chain`, the leaf first, after the same verification as by peers.
    pub fn issue(
        &self,
        key: &TlsKey,
        chain: Vec<CertificateDer<'static>>,
        now: SystemTime,
    ) -> Result<Credentials, InvalidCredentials> {
        let validity = self.verify(&chain, now)?;
        self.assemble(key, chain, validity)
    }

    /// Verifies a chain of this proxy, the leaf first: its names, its time, and that it leads to an anchor.
    pub(super) fn verify(
        &self,
        chain: &[CertificateDer<'static>],
        now: SystemTime,
    ) -> Result<Validity, InvalidCredentials> {
        let (leaf, intermediates) = chain.split_first().ok_or(InvalidCredentials::Missing)?;
        let details = CertificateDetails::read(leaf)?;
        if !details.identities.contains(&self.local.identity) {
            return Err(InvalidCredentials::Identity {
                found: names(&details.identities),
                expected: self.local.identity.clone(),
            });
        }
        if let Some(problem) = details.validity.problem(now) {
            return Err(InvalidCredentials::Time(problem));
        }
        let since_epoch = now.duration_since(SystemTime::UNIX_EPOCH);
        let unix_now = UnixTime::since_unix_epoch(since_epoch.unwrap_or_default());
        let server_name = ServerName::try_from(self.local.server_name.as_ref());
        let server_name = server_name.map_err(|error| rustls::Error::General(error.to_string()))?;
        let verifier = self.verifier();
        verifier.verify_server_cert(leaf, intermediates, &server_name, &[], unix_now)?;
        Ok(details.validity)
    }

    /// Credentials with a chain that is not verified here.
    pub(super) fn assemble(
        &self,
        key: &TlsKey,
        chain: Vec<CertificateDer<'static>>,
        validity: Validity,
    ) -> Result<Credentials, InvalidCredentials> {
        let (provider, verifier) = (provider(), self.verifier());
        let certified = CertifiedKey::new(chain, key.0.clone());
        certified.keys_match()?;
        let resolver = Arc::new(SingleCertAndKey::from(certified));
        let client = || -> Result<ClientConfig, rustls::Error> {
            let config = client_config(verifier.clone())?;
            let mut config = config.with_client_cert_resolver(resolver.clone());
            config.resumption = Resumption::in_memory_sessions(CLIENT_SESSIONS);
            Ok(config)
        };
        let clients = WebPkiClientVerifier::builder_with_provider(
            self.anchors.roots.clone(),
            provider.clone(),
        );
        let clients = clients.allow_unauthenticated().build()?;
        let server = || -> Result<ServerConfig, rustls::Error> {
            let mut config = ServerConfig::builder_with_provider(provider.clone())
                .with_protocol_versions(&[&TLS13])?
                .with_client_cert_verifier(clients.clone())
                .with_cert_resolver(resolver.clone());
            config.ticketer = self.tickets.clone();
            Ok(config)
        };
        let mut client_with_header = client()?;
        client_with_header.alpn_protocols = vec![ALPN.to_vec()];
        let mut server_with_header = server()?;
        server_with_header.alpn_protocols = vec![ALPN.to_vec()];
        Ok(Credentials {
            local: self.local.clone(),
            validity,
            client: client()?.into(),
            client_with_header: client_with_header.into(),
            server: server()?.into(),
            server_with_header: server_with_header.into(),
            clients,
            servers: verifier,
            anchors: self.anchors.clone(),
        })
    }
}

impl Credentials {
    /// TLS to endpoints.
    pub(super) fn client(&self, with_header: bool) -> &Arc<ClientConfig> {
        match with_header {
            true => &self.client_with_header,
            false => &self.client,
        }
    }

    /// Verifies the certificates of clients.
    pub(super) fn clients(&self) -> &Arc<dyn ClientCertVerifier> {
        &self.clients
    }

    /// Verifies the certificates of a server, except for its name.
    pub(super) fn verify_server(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        let unnamed = ServerName::from(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let verified = self
            .servers
            .verify_server_cert(leaf, intermediates, &unnamed, &[], now);
        verified.map(drop)
    }

    /// Whether these credentials have the trust anchors of `other`, not only equal ones.
    pub(super) fn trusts_like(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.anchors.roots, &other.anchors.roots)
    }

    /// TLS with clients.
    pub(super) fn server(&self, with_header: bool) -> &Arc<ServerConfig> {
        match with_header {
            true => &self.server_with_header,
            false => &self.server,
        }
    }
}

fn client_config(
    verifier: Arc<AnchoredServer>,
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, rustls::Error> {
    Ok(ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier))
}

/// Identities, for an error.
pub(super) fn names(identities: &[Identity]) -> String {
    let names: Vec<_> = identities.iter().take(3).map(Identity::as_str).collect();
    match names.is_empty() {
        true => "no identity".to_owned(),
        false => names.join(", "),
    }
}

/// The most resumable sessions, by server name, at a time.
const CLIENT_SESSIONS: usize = 256;
