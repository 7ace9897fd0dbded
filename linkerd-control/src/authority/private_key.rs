//! The private key of an authority, in the forms that openssl, step and cert-manager write.

use super::AuthorityError;
use rcgen::KeyPair;
use rustls::{
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};

/// A key, and the DER that it was read from.
pub(super) struct PrivateKey {
    pub(super) pair: KeyPair,
    der: PrivateKeyDer<'static>,
}

impl PrivateKey {
    /// The first private key of a text in PEM: PKCS #8, SEC 1 or PKCS #1. Other sections, such as `EC PARAMETERS`, are
    /// skipped.
    pub(super) fn from_pem(text: &str) -> Result<Self, AuthorityError> {
        if ENCRYPTED.iter().any(|mark| text.contains(mark)) {
            return Err(AuthorityError::EncryptedKey);
        }
        let Some(der) = PrivateKeyDer::pem_slice_iter(text.as_bytes()).next() else {
            return Err(missing(text));
        };
        // A damaged section is reported like a missing one.
        let der = der.map_err(|_| AuthorityError::NoKey)?;
        let pair = KeyPair::try_from(&der).map_err(|_| AuthorityError::KeyKind(form(&der)))?;
        Ok(Self { pair, der })
    }

    pub(super) fn is_of(&self, certificate: &CertificateDer<'static>) -> bool {
        let key = aws_lc_rs::sign::any_supported_type(&self.der);
        key.is_ok_and(|key| {
            let pair = CertifiedKey::new(vec![certificate.clone()], key);
            pair.keys_match().is_ok()
        })
    }
}

/// The error of a text without a key of a known form.
fn missing(text: &str) -> AuthorityError {
    let label = text.lines().find_map(|line| {
        let label = line.trim().strip_prefix("-----BEGIN ")?;
        label.strip_suffix("-----")
    });
    match label {
        Some("OPENSSH PRIVATE KEY") => AuthorityError::OpenSshKey,
        Some(label) if label.len() <= MAX_LABEL => AuthorityError::OtherSection(label.to_owned()),
        _ => AuthorityError::NoKey,
    }
}

fn form(key: &PrivateKeyDer<'_>) -> &'static str {
    match key {
        PrivateKeyDer::Pkcs1(_) => "PKCS #1, RSA PRIVATE KEY",
        PrivateKeyDer::Sec1(_) => "SEC 1, EC PRIVATE KEY",
        _ => "PKCS #8, PRIVATE KEY",
    }
}

/// The marks of encrypted keys: of PKCS #8, and of the older forms (RFC 1421).
const ENCRYPTED: [&str; 2] = ["BEGIN ENCRYPTED PRIVATE KEY", "Proc-Type: 4,ENCRYPTED"];

/// The longest label of a section that an error shows.
const MAX_LABEL: usize = 40;
