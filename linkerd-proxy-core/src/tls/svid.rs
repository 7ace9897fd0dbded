//! X.509 SVIDs: key, certificate and trust bundle of a workload, as a workload API sends them (SPIFFE X509-SVID).

use super::{Identity, TlsKey, TrustAnchors, certificate::read_certificates};
use rustls::pki_types::CertificateDer;
use std::{borrow::Cow, fmt};

/// An X.509 SVID as received. Logs do not show its key.
#[derive(Clone, PartialEq, Eq)]
pub struct X509Svid {
    /// The SPIFFE ID.
    pub spiffe_id: String,
    /// The certificate and its intermediates in DER, one after another.
    pub certificates: Vec<u8>,
    /// The private key, in PKCS#8 DER.
    pub key: Vec<u8>,
    /// The authorities of its trust domain in DER, one after another.
    pub bundle: Vec<u8>,
}

/// The contents of an X.509 SVID.
#[derive(Clone, Debug)]
pub struct SvidContents {
    /// The private key.
    pub key: TlsKey,
    /// The certificate, the leaf first.
    pub chain: Vec<CertificateDer<'static>>,
    /// The trust anchors.
    pub bundle: TrustAnchors,
}

/// An answer of a workload API without a usable SVID for this proxy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the field {field}: {problem}")]
pub struct InvalidSvid {
    /// The field of the answer.
    pub field: &'static str,
    /// The problem, and its fix where one is known.
    pub problem: Cow<'static, str>,
}

impl X509Svid {
    /// The first SVID of an answer with the SPIFFE ID `identity`.
    pub fn choose<'s>(svids: &'s [Self], identity: &Identity) -> Result<&'s Self, InvalidSvid> {
        if let Some(svid) = svids
            .iter()
            .find(|svid| svid.spiffe_id == identity.as_str())
        {
            return Ok(svid);
        }
        let found: Vec<_> = svids.iter().take(MAX_SHOWN).map(Self::shown_id).collect();
        let found = match found.is_empty() {
            true => "no SVID".to_owned(),
            false => found.join(", "),
        };
        Err(invalid(
            "spiffe_id",
            format!(
                "the answer has {found}, and none for {identity}: register this workload with that SPIFFE ID, or set the \
                 identity of this proxy to one that it has"
            ),
        ))
    }

    /// Reads the fields. Does not verify whether the certificate is trusted.
    pub fn read(&self) -> Result<SvidContents, InvalidSvid> {
        let chain = read_certificates(&self.certificates);
        let chain = chain.map_err(|error| invalid("x509_svid", error.to_string()))?;
        if chain.is_empty() {
            return Err(invalid("x509_svid", "it is empty"));
        }
        let key = TlsKey::from_pkcs8(&self.key);
        let bundle = read_certificates(&self.bundle);
        let bundle = bundle.map_err(|error| invalid("bundle", error.to_string()))?;
        let bundle = TrustAnchors::from_certificates(bundle);
        Ok(SvidContents {
            key: key.map_err(|error| invalid("x509_svid_key", error.to_string()))?,
            chain,
            bundle: bundle.map_err(|error| invalid("bundle", error.to_string()))?,
        })
    }

    fn shown_id(&self) -> String {
        let shown = self.spiffe_id.chars().take(MAX_CHARS);
        shown.flat_map(char::escape_debug).collect()
    }
}

impl fmt::Debug for X509Svid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("X509Svid")
            .field("spiffe_id", &self.spiffe_id)
            .finish_non_exhaustive()
    }
}

fn invalid(field: &'static str, problem: impl Into<Cow<'static, str>>) -> InvalidSvid {
    InvalidSvid {
        field,
        problem: problem.into(),
    }
}

/// SPIFFE IDs of an answer that an error shows, and their longest form.
const MAX_SHOWN: usize = 3;
const MAX_CHARS: usize = 200;
