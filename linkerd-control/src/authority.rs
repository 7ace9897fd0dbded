//! The certificate authority of a mesh.

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertificateSigningRequestParams,
    DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType, SerialNumber,
};
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{
        CertificateDer, CertificateSigningRequestDer, PrivateKeyDer, PrivatePkcs8KeyDer,
        pem::PemObject,
    },
    sign::CertifiedKey,
    version::TLS13,
};
use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

/// A certificate authority: a key and a certificate that all proxies of the mesh trust.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    trust_anchors: String,
}

/// A key and its certificate, issued by an authority to a workload. Logs do not show the key.
#[derive(Clone)]
pub struct IssuedIdentity {
    /// The certificate, in DER.
    pub certificate: Vec<u8>,
    /// The private key, in PKCS#8 DER.
    pub key: Vec<u8>,
    /// The certificate, in PEM.
    pub certificate_pem: String,
    /// The private key, in PEM.
    pub key_pem: String,
}

/// A certificate that an authority has signed.
#[derive(Clone, Debug)]
pub struct SignedCertificate {
    /// The certificate, in DER.
    pub certificate: Vec<u8>,
    /// Its serial number, in hexadecimal.
    pub serial: String,
}

/// A certificate that cannot be issued, or an authority that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthorityError {
    /// A key or a certificate cannot be made or read.
    #[error("{0}")]
    Certificate(String),
    /// There is no private key in PEM.
    #[error("there is no private key in PEM (PKCS #8)")]
    NoKey,
    /// There is no certificate in PEM.
    #[error("there is no certificate in PEM")]
    NoCertificate,
    /// The key belongs to another certificate.
    #[error("the key belongs to none of the certificates")]
    OtherKey,
    /// The request is for another name.
    #[error("the request is for {found}, and the proxy says that it is {expected}")]
    Name {
        /// The names in the request.
        found: String,
        /// The identity that the proxy claims.
        expected: String,
    },
}

impl Authority {
    /// A new authority, with an ECDSA P-256 key.
    pub fn generate(name: &str) -> Result<Self, AuthorityError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let now = SystemTime::now();
        params.not_before = (now - CLOCK_SKEW).into();
        params.not_after = (now + LIFETIME).into();
        let trust_anchors = params.self_signed(&key)?.pem();
        Ok(Self {
            issuer: Issuer::new(params, key),
            trust_anchors,
        })
    }

    /// An authority with certificates and a key in PEM. It signs for the certificate of the key; proxies trust all certificates,
    /// so that one can be replaced while certificates signed by the other are still in use.
    pub fn from_pem(certificates: &str, key: &str) -> Result<Self, AuthorityError> {
        let key = KeyPair::from_pem(key).map_err(|_| AuthorityError::NoKey)?;
        let found: Result<Vec<_>, _> =
            CertificateDer::pem_slice_iter(certificates.as_bytes()).collect();
        let found = found.map_err(|error| AuthorityError::Certificate(error.to_string()))?;
        if found.is_empty() {
            return Err(AuthorityError::NoCertificate);
        }
        let own = found
            .into_iter()
            .find(|certificate| is_of(certificate, &key));
        let own = own.ok_or(AuthorityError::OtherKey)?;
        Ok(Self {
            issuer: Issuer::from_ca_cert_der(&own, key)?,
            trust_anchors: certificates.to_owned(),
        })
    }

    /// The certificates in PEM: `LINKERD2_PROXY_IDENTITY_TRUST_ANCHORS` of the proxies.
    pub fn trust_anchors(&self) -> &str {
        &self.trust_anchors
    }

    /// Signs the request of a proxy with this `identity`, for `lifetime` from now. Of the request, the key and the name are taken
    /// alone: the use of the key is that of TLS, whatever was asked for.
    pub fn sign(
        &self,
        request: &[u8],
        identity: &str,
        lifetime: Duration,
    ) -> Result<SignedCertificate, AuthorityError> {
        let request = CertificateSigningRequestDer::from(request.to_vec());
        let mut request = CertificateSigningRequestParams::from_der(&request)?;
        let names = request.params.subject_alt_names.iter().map(name);
        let names: Vec<_> = names.collect();
        if names != [identity] {
            return Err(AuthorityError::Name {
                found: names.join(", "),
                expected: identity.to_owned(),
            });
        }
        let asked = std::mem::take(&mut request.params);
        let params = &mut request.params;
        params.subject_alt_names = asked.subject_alt_names;
        params.distinguished_name = asked.distinguished_name;
        params.is_ca = IsCa::NoCa;
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyEncipherment,
        ];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let serial = serial()?;
        request.params.serial_number = Some(SerialNumber::from_slice(&serial));
        valid(&mut request.params, lifetime);
        Ok(SignedCertificate {
            certificate: request.signed_by(&self.issuer)?.der().to_vec(),
            serial: serial.iter().map(|byte| format!("{byte:02x}")).collect(),
        })
    }

    /// A new key and a certificate for `identity`, a DNS name or a URI, for `lifetime` from now.
    pub fn issue(
        &self,
        identity: &str,
        lifetime: Duration,
    ) -> Result<IssuedIdentity, AuthorityError> {
        let (certificate, key) = self.certificate(&[identity], lifetime)?;
        Ok(IssuedIdentity {
            certificate: certificate.der().to_vec(),
            key: key.serialize_der(),
            certificate_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
        })
    }

    /// The certificates that proxies trust in DER, one after another.
    pub fn trust_bundle(&self) -> Vec<u8> {
        let certificates = CertificateDer::pem_slice_iter(self.trust_anchors.as_bytes());
        certificates
            .flatten()
            .flat_map(|certificate| certificate.to_vec())
            .collect()
    }

    /// TLS of a server with a certificate for `names`, such as the controller's own names.
    pub(crate) fn server(
        &self,
        names: &[impl AsRef<str>],
    ) -> Result<Arc<ServerConfig>, AuthorityError> {
        let (certificate, key) = self.certificate(names, LIFETIME)?;
        let chain: Vec<CertificateDer<'static>> = vec![certificate.der().clone()];
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(aws_lc_rs::default_provider().into())
            .with_protocol_versions(&[&TLS13])
            .map(|config| config.with_no_client_auth());
        let config = config.and_then(|config| config.with_single_cert(chain, key));
        // Some clients, grpc-core among them, refuse a server that does not choose HTTP/2.
        let with_http2 = |mut config: ServerConfig| {
            config.alpn_protocols = vec![b"h2".to_vec()];
            config
        };
        config
            .map(with_http2)
            .map(Arc::new)
            .map_err(|error| AuthorityError::Certificate(error.to_string()))
    }

    fn certificate(
        &self,
        identities: &[impl AsRef<str>],
        lifetime: Duration,
    ) -> Result<(Certificate, KeyPair), AuthorityError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        for identity in identities.iter().map(AsRef::as_ref) {
            params
                .subject_alt_names
                .push(match identity.contains("://") {
                    true => SanType::URI(identity.try_into()?),
                    false => SanType::DnsName(identity.try_into()?),
                });
        }
        valid(&mut params, lifetime);
        Ok((params.signed_by(&key, &self.issuer)?, key))
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl fmt::Debug for IssuedIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuedIdentity").finish_non_exhaustive()
    }
}

impl From<rcgen::Error> for AuthorityError {
    fn from(error: rcgen::Error) -> Self {
        Self::Certificate(error.to_string())
    }
}

/// Whether the key belongs to the certificate.
fn is_of(certificate: &CertificateDer<'static>, key: &KeyPair) -> bool {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let key = aws_lc_rs::sign::any_supported_type(&key);
    key.is_ok_and(|key| {
        let pair = CertifiedKey::new(vec![certificate.clone()], key);
        pair.keys_match().is_ok()
    })
}

/// Sets the period of validity: from before now, as clocks differ.
/// A random serial number (RFC 5280, section 4.1.2.2).
fn serial() -> Result<[u8; 16], AuthorityError> {
    let mut serial = [0; 16];
    let random = aws_lc_rs::default_provider().secure_random;
    let filled = random.fill(&mut serial);
    filled.map_err(|_| AuthorityError::Certificate("there are no random numbers".to_owned()))?;
    // Positive, and never 0.
    serial[0] = serial[0] & 0x7f | 0x40;
    Ok(serial)
}

fn valid(params: &mut CertificateParams, lifetime: Duration) {
    let now = SystemTime::now();
    params.not_before = (now - CLOCK_SKEW).into();
    params.not_after = (now + lifetime).into();
}

fn name(name: &SanType) -> String {
    match name {
        SanType::DnsName(name) => name.to_string(),
        SanType::URI(uri) => uri.to_string(),
        other => format!("{other:?}"),
    }
}

/// The tolerated difference between the clocks of two hosts.
const CLOCK_SKEW: Duration = Duration::from_secs(20);

/// A year: the lifetime of a new authority.
const LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    fn request(names: &[&str]) -> Vec<u8> {
        let key = KeyPair::generate().unwrap();
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        let params = CertificateParams::new(names).unwrap();
        params.serialize_request(&key).unwrap().der().to_vec()
    }

    #[test]
    fn a_request_is_signed_for_its_own_name_only() {
        let authority = Authority::generate("root").unwrap();
        let hour = Duration::from_secs(3600);
        assert!(
            authority
                .sign(&request(&["web.test"]), "web.test", hour)
                .is_ok()
        );
        let error = authority.sign(&request(&["web.test"]), "api.test", hour);
        assert_eq!(
            error.unwrap_err().to_string(),
            "the request is for web.test, and the proxy says that it is api.test"
        );
        let two = request(&["web.test", "api.test"]);
        assert!(authority.sign(&two, "web.test", hour).is_err());
        assert!(authority.sign(b"junk", "web.test", hour).is_err());
    }

    #[test]
    fn a_key_is_never_shown() {
        let authority = Authority::generate("root").unwrap();
        assert_eq!(format!("{authority:?}"), "Authority { .. }");
        let issued = authority.issue("spiffe://test/web", LIFETIME).unwrap();
        assert_eq!(format!("{issued:?}"), "IssuedIdentity { .. }");
    }

    #[test]
    fn an_authority_given_in_pem_signs_as_well() {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap().pem();
        let authority = Authority::from_pem(&certificate, &key.serialize_pem()).unwrap();
        assert_eq!(authority.trust_anchors(), certificate);
        let hour = Duration::from_secs(3600);
        assert!(
            authority
                .sign(&request(&["web.test"]), "web.test", hour)
                .is_ok()
        );
        let error = |certificate: &str, key: &str| {
            let refused = Authority::from_pem(certificate, key);
            refused.expect_err("it is refused")
        };
        assert_eq!(error(&certificate, ""), AuthorityError::NoKey);
        let (own, other) = (key.serialize_pem(), KeyPair::generate().unwrap());
        assert_eq!(error("", &own), AuthorityError::NoCertificate);
        let other = other.serialize_pem();
        assert_eq!(error(&certificate, &other), AuthorityError::OtherKey);
    }

    #[test]
    fn an_authority_of_a_bundle_signs_for_the_certificate_of_its_key() {
        let old = Authority::generate("old").unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "the new one");
        let new = params.self_signed(&key).unwrap().pem();
        let bundle = format!("{}{new}", old.trust_anchors());
        let authority = Authority::from_pem(&bundle, &key.serialize_pem()).unwrap();
        assert_eq!(authority.trust_anchors(), bundle);
        let hour = Duration::from_secs(3600);
        let signed = authority.sign(&request(&["web.test"]), "web.test", hour);
        let issuer = b"the new one";
        let signed = signed.unwrap();
        assert!(
            signed
                .certificate
                .windows(issuer.len())
                .any(|part| part == issuer)
        );
    }
}
