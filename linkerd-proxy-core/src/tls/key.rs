//! The private key of the proxy, and its request for a certificate.

use super::{Identity, provider::provider};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls::{
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    sign::SigningKey,
};
use std::{fmt, sync::Arc};

/// A private key, which signs the proxy's handshakes. Logs do not show it.
#[derive(Clone)]
pub struct TlsKey(pub(super) Arc<dyn SigningKey>);

/// A private key and the request for its certificate (PKCS#10).
#[derive(Clone, Debug)]
pub struct KeyAndRequest {
    /// The key.
    pub key: TlsKey,
    /// The certificate signing request, in DER.
    pub request: Vec<u8>,
}

/// A private key that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the private key cannot be used: {0}; expected PKCS#8 with an ECDSA P-256 key")]
pub struct InvalidKey(String);

impl TlsKey {
    /// Reads a key in PKCS#8 DER.
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, InvalidKey> {
        let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(der.to_vec()));
        let key = provider().key_provider.load_private_key(der);
        key.map(Self).map_err(|error| InvalidKey(error.to_string()))
    }
}

impl fmt::Debug for TlsKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsKey(..)")
    }
}

impl KeyAndRequest {
    /// Makes an ECDSA P-256 key, and a request for a certificate with the name of `identity`.
    pub fn generate(identity: &Identity) -> Result<Self, InvalidKey> {
        let invalid = |error: rcgen::Error| InvalidKey(error.to_string());
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(invalid)?;
        let mut params = CertificateParams::new(vec![identity.to_string()]).map_err(invalid)?;
        if let Identity::Uri(uri) = identity {
            let uri = uri.to_string().try_into().map_err(invalid)?;
            params.subject_alt_names = vec![rcgen::SanType::URI(uri)];
        }
        params.distinguished_name = DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::CommonName, identity.as_str());
        let request = params.serialize_request(&key).map_err(invalid)?;
        Ok(Self {
            key: TlsKey::from_pkcs8(key.serialized_der())?,
            request: request.der().to_vec(),
        })
    }
}
