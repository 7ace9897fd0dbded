//! The parts of a certificate that the proxy reads.

use super::Identity;
use rustls::pki_types::CertificateDer;
use std::{
    fmt,
    time::{Duration, SystemTime},
};
use x509_parser::{
    extensions::GeneralName,
    prelude::{FromDer, X509Certificate},
};

/// The identities of a certificate, and its period of validity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateDetails {
    /// DNS and URI names (subject alternative names), in the order of the certificate. Other names are left out.
    pub identities: Vec<Identity>,
    /// The period of validity.
    pub validity: Validity,
}

/// The period in which a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first moment.
    pub not_before: SystemTime,
    /// The last moment.
    pub not_after: SystemTime,
}

/// Bytes that are not a certificate (RFC 5280).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an X.509 certificate: {0}")]
pub struct InvalidCertificate(pub(super) String);

impl CertificateDetails {
    /// Reads a certificate. Its signature is not verified.
    pub fn read(der: &CertificateDer<'_>) -> Result<Self, InvalidCertificate> {
        let (_, certificate) = X509Certificate::from_der(der)
            .map_err(|error| InvalidCertificate(error.to_string()))?;
        let names = certificate
            .subject_alternative_name()
            .map_err(|error| InvalidCertificate(error.to_string()))?;
        let names = names.map(|names| names.value.general_names.as_slice());
        let identities = names.unwrap_or_default().iter().filter_map(|name| {
            let text = match name {
                GeneralName::DNSName(text) | GeneralName::URI(text) => text,
                _ => return None,
            };
            let identity: Identity = text.parse().ok()?;
            let is_dns = matches!(name, GeneralName::DNSName(_));
            (is_dns == identity.dns_name().is_some()).then_some(identity)
        });
        Ok(Self {
            identities: identities.collect(),
            validity: certificate.validity().into(),
        })
    }
}

/// Certificates in DER, one after another. Their signatures are not verified.
pub(super) fn read_certificates(
    der: &[u8],
) -> Result<Vec<CertificateDer<'static>>, InvalidCertificate> {
    let mut certificates = Vec::new();
    let mut left = der;
    while !left.is_empty() {
        let (after, _) = X509Certificate::from_der(left)
            .map_err(|error| InvalidCertificate(error.to_string()))?;
        let (certificate, _) = left.split_at(left.len() - after.len());
        certificates.push(CertificateDer::from(certificate.to_vec()));
        left = after;
    }
    Ok(certificates)
}

impl Validity {
    /// Whether `now` is within the period.
    pub fn contains(&self, now: SystemTime) -> bool {
        (self.not_before..=self.not_after).contains(&now)
    }

    /// The time left until the last moment.
    pub fn left(&self, now: SystemTime) -> Duration {
        self.not_after.duration_since(now).unwrap_or_default()
    }

    /// Explains why a certificate is not valid at `now`, with all three times; `None` if it is valid.
    pub fn problem(&self, now: SystemTime) -> Option<String> {
        let state = match () {
            () if now < self.not_before => "is not valid yet",
            () if now > self.not_after => "has expired",
            () => return None,
        };
        let clock = httpdate::fmt_http_date(now);
        Some(format!(
            "the certificate {state}: it is valid {self}, and the clock of this host says {clock}"
        ))
    }
}

impl From<&x509_parser::certificate::Validity> for Validity {
    fn from(validity: &x509_parser::certificate::Validity) -> Self {
        Self {
            not_before: time(validity.not_before.timestamp()),
            not_after: time(validity.not_after.timestamp()),
        }
    }
}

impl fmt::Display for Validity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [from, until] = [self.not_before, self.not_after].map(httpdate::fmt_http_date);
        write!(f, "from {from} until {until}")
    }
}

/// A time in seconds since 1970, limited to dates that can be shown.
fn time(seconds: i64) -> SystemTime {
    let seconds = u64::try_from(seconds).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.min(MAX_SECONDS))
}

/// The end of the year 9999.
const MAX_SECONDS: u64 = 253_402_300_799;
