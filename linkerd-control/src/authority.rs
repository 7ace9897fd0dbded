//! The certificate authority of a mesh.

mod error;
mod private_key;
mod requested;

pub use error::AuthorityError;

use ::aws_lc_rs::rand;
use private_key::PrivateKey;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType, SerialNumber,
};
use requested::RequestedCertificate;
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject},
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
    expires: SystemTime,
}

/// A certificate that was signed for a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedCertificate {
    /// The certificate, in DER.
    pub der: Vec<u8>,
    /// The serial number, in hexadecimal digits as tools print it.
    pub serial: String,
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
        let expires = now + LIFETIME;
        params.not_after = expires.into();
        let trust_anchors = params.self_signed(&key)?.pem();
        Ok(Self {
            issuer: Issuer::new(params, key),
            trust_anchors,
            expires,
        })
    }

    /// An authority with certificates and a key in PEM (PKCS #8, SEC 1 or PKCS #1). It signs for the certificate of the key; proxies trust all certificates,
    /// so that one can be replaced while certificates signed by the other are still in use.
    pub fn from_pem(certificates: &str, key: &str) -> Result<Self, AuthorityError> {
        let key = PrivateKey::from_pem(key)?;
        let found: Result<Vec<_>, _> =
            CertificateDer::pem_slice_iter(certificates.as_bytes()).collect();
        let found = found.map_err(|error| AuthorityError::Certificate(error.to_string()))?;
        if found.is_empty() {
            return Err(AuthorityError::NoCertificate);
        }
        let own = found.into_iter().find(|certificate| key.is_of(certificate));
        let own = own.ok_or(AuthorityError::OtherKey)?;
        Ok(Self {
            expires: requested::expiry(&own)?,
            issuer: Issuer::from_ca_cert_der(&own, key.pair)?,
            trust_anchors: certificates.to_owned(),
        })
    }

    /// The certificates in PEM: `LINKERD2_PROXY_IDENTITY_TRUST_ANCHORS` of the proxies.
    pub fn trust_anchors(&self) -> &str {
        &self.trust_anchors
    }

    /// The expiry of the certificate of the key.
    pub fn expires(&self) -> SystemTime {
        self.expires
    }

    /// Signs the request of a proxy with this `identity`, for `lifetime` from now.
    ///
    /// Of the request, the certificate has the key and the name alone. What a certificate may be used for is the authority's
    /// decision: for TLS, and not to sign others.
    pub fn sign(
        &self,
        request: &[u8],
        identity: &str,
        lifetime: Duration,
    ) -> Result<SignedCertificate, AuthorityError> {
        let request = RequestedCertificate::parse(request)?;
        if !request.name.eq_ignore_ascii_case(identity) {
            return Err(AuthorityError::Name {
                found: request.name,
                expected: identity.to_owned(),
            });
        }
        let (params, serial) = leaf(&[identity], lifetime)?;
        let der = params.signed_by(&request.key, &self.issuer)?.der().to_vec();
        Ok(SignedCertificate { der, serial })
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
        let mut config = config.map_err(|error| AuthorityError::Certificate(error.to_string()))?;
        // Clients of grpc-core end a handshake that selects no protocol.
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Arc::new(config))
    }

    fn certificate(
        &self,
        identities: &[impl AsRef<str>],
        lifetime: Duration,
    ) -> Result<(Certificate, KeyPair), AuthorityError> {
        let key = KeyPair::generate()?;
        let (params, _) = leaf(identities, lifetime)?;
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

/// A certificate for TLS with these names, and its serial number: from before now, as clocks differ.
fn leaf(
    identities: &[impl AsRef<str>],
    lifetime: Duration,
) -> Result<(CertificateParams, String), AuthorityError> {
    let mut params = CertificateParams::default();
    // Readers of certificates take the name from the alternative names alone (RFC 9525, 6.3).
    params.distinguished_name = DistinguishedName::new();
    for identity in identities.iter().map(AsRef::as_ref) {
        let name = match identity.contains("://") {
            true => SanType::URI(identity.try_into()?),
            false => SanType::DnsName(identity.try_into()?),
        };
        params.subject_alt_names.push(name);
    }
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    let now = SystemTime::now();
    params.not_before = (now - CLOCK_SKEW).into();
    params.not_after = (now + lifetime).into();
    let serial = serial()?;
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    let shown = serial.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok((params, shown))
}

/// A random serial number of 128 bits, positive and without a leading zero (RFC 5280, 4.1.2.2).
fn serial() -> Result<[u8; 16], AuthorityError> {
    let mut serial = [0; 16];
    let none = |_| AuthorityError::Certificate("there is no randomness".to_owned());
    rand::fill(&mut serial).map_err(none)?;
    serial[0] = serial[0] & 0x3f | 0x40;
    Ok(serial)
}

/// The tolerated difference between the clocks of two hosts.
const CLOCK_SKEW: Duration = Duration::from_secs(20);

/// A year: the lifetime of a new authority.
const LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;
    use x509_parser::{certificate::X509Certificate, prelude::FromDer};

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
        let refused = |names: &[&str], identity: &str| {
            let error = authority.sign(&request(names), identity, hour);
            error.unwrap_err().to_string()
        };
        let two = refused(&["web.test", "api.test"], "web.test");
        assert!(two.starts_with("the request has 2 names"), "{two}");
        let address = refused(&["10.0.0.1"], "IpAddress(10.0.0.1)");
        assert!(address.contains("a name of another kind"), "{address}");
        assert!(authority.sign(b"junk", "web.test", hour).is_err());
    }

    /// A request may ask for anything; the certificate is one of a leaf for TLS.
    #[test]
    fn a_certificate_cannot_sign_others_whatever_the_request_asks_for() {
        let authority = Authority::generate("root").unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["web.test".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::Any];
        params
            .distinguished_name
            .push(DnType::CommonName, "control.test");
        let request = params.serialize_request(&key).unwrap();
        let day = Duration::from_secs(24 * 3600);
        let sign = || authority.sign(request.der(), "web.test", day).unwrap();
        let (signed, again) = (sign(), sign());
        assert_ne!(signed.serial, again.serial);

        let (_, certificate) = X509Certificate::from_der(&signed.der).unwrap();
        assert_eq!(
            certificate.raw_serial_as_string().replace(':', ""),
            signed.serial
        );
        assert!(!certificate.is_ca() && certificate.subject().iter().next().is_none());
        let usage = certificate.key_usage().unwrap().unwrap().value;
        assert!(usage.digital_signature() && !usage.key_cert_sign() && !usage.crl_sign());
        let extended = certificate.extended_key_usage().unwrap().unwrap().value;
        assert!(extended.server_auth && extended.client_auth && !extended.any);
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
        let signed = signed.unwrap().der;
        assert!(signed.windows(issuer.len()).any(|part| part == issuer));
    }
}
