//! Certificate signing requests, and the fields of certificates that are read.

use super::error::AuthorityError;
use rcgen::{CertificateSigningRequestParams, PublicKey, SanType};
use rustls::pki_types::{CertificateDer, CertificateSigningRequestDer};
use std::time::{Duration, SystemTime};
use x509_parser::{certificate::X509Certificate, prelude::FromDer};

/// The parts of a request that become part of the certificate: its key, which has signed the request, and one name.
pub(super) struct RequestedCertificate {
    pub(super) key: PublicKey,
    pub(super) name: String,
}

impl RequestedCertificate {
    pub(super) fn parse(request: &[u8]) -> Result<Self, AuthorityError> {
        let request = CertificateSigningRequestDer::from(request.to_vec());
        let request = CertificateSigningRequestParams::from_der(&request)?;
        let name = match &request.params.subject_alt_names[..] {
            [SanType::DnsName(name)] => name.to_string(),
            [SanType::URI(uri)] => uri.to_string(),
            // An address is not compared as a text: it might be that of another kind of name.
            [_] => {
                return Err(AuthorityError::NameKind(
                    "a name of another kind".to_owned(),
                ));
            }
            names => return Err(AuthorityError::NameKind(format!("{} names", names.len()))),
        };
        Ok(Self {
            key: request.public_key,
            name,
        })
    }
}

/// The end of a certificate's validity.
pub(super) fn expiry(certificate: &CertificateDer<'_>) -> Result<SystemTime, AuthorityError> {
    let (_, certificate) = X509Certificate::from_der(certificate)
        .map_err(|error| AuthorityError::Certificate(error.to_string()))?;
    let seconds = certificate.validity().not_after.timestamp();
    let seconds = Duration::from_secs(seconds.try_into().unwrap_or_default());
    Ok(SystemTime::UNIX_EPOCH + seconds)
}
