//! The names and the validity of trust anchors, which verification itself does not check.

use super::{InvalidCertificate, InvalidTrustAnchors, Validity};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use x509_parser::prelude::{FromDer, X509Certificate};

/// The certificate of a trusted authority. Chains are verified against its key alone: handshakes do not check the
/// anchor's own expiry (RFC 5280, 6.1.1), but most issuers do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnchorDetails {
    /// The subject, such as `CN=root.linkerd.cluster.local`.
    pub subject: String,
    /// The period of validity.
    pub validity: Validity,
}

impl AnchorDetails {
    /// Reads certificates in PEM, in their order. Invalid certificates are left out, as by
    /// [`TrustAnchors`](super::TrustAnchors).
    pub fn read_pem(pem: &str) -> Result<Vec<Self>, InvalidTrustAnchors> {
        let certificates: Result<Vec<_>, _> =
            CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
        let certificates =
            certificates.map_err(|error| InvalidTrustAnchors::Pem(error.to_string()))?;
        let read = certificates
            .iter()
            .filter_map(|certificate| Self::read(certificate).ok());
        Ok(read.collect())
    }

    fn read(der: &CertificateDer<'_>) -> Result<Self, InvalidCertificate> {
        let (_, certificate) = X509Certificate::from_der(der)
            .map_err(|error| InvalidCertificate(error.to_string()))?;
        Ok(Self {
            subject: certificate.subject().to_string(),
            validity: certificate.validity().into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};
    use std::time::{Duration, SystemTime};

    #[test]
    fn anchors_are_named_and_dated_in_their_order() {
        let anchor = |name: &str, until: i32| {
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.distinguished_name.push(DnType::CommonName, name);
            params.not_before = date_time_ymd(2001, 1, 1);
            params.not_after = date_time_ymd(until, 1, 1);
            params
                .self_signed(&KeyPair::generate().unwrap())
                .unwrap()
                .pem()
        };
        let pem = format!("{}{}", anchor("old", 2002), anchor("new", 2003));
        let details = AnchorDetails::read_pem(&pem).unwrap();
        let names: Vec<_> = details.iter().map(|it| &*it.subject).collect();
        assert_eq!(names, ["CN=old", "CN=new"]);
        let year = SystemTime::UNIX_EPOCH + Duration::from_secs(1_009_843_200);
        assert_eq!(details[0].validity.not_after, year);
        assert!(details[1].validity.contains(year));
        assert_eq!(AnchorDetails::read_pem("").unwrap(), []);
    }
}
