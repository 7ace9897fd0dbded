//! The SPIFFE Workload API, as far as X.509 identities go: `SpiffeWorkloadAPI.FetchX509SVID`.
//!
//! Written for this crate after the specification, as no published bindings are small enough for one call. Messages with a
//! private key have no form in logs.

use std::collections::HashMap;
use std::fmt;

/// A request for the X.509 identities of the workload that calls.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct X509SvidRequest {}

/// The X.509 identities of a workload. Each message replaces those before.
#[derive(Clone, PartialEq, prost::Message)]
pub struct X509SvidResponse {
    /// The identities.
    #[prost(message, repeated, tag = "1")]
    pub svids: Vec<X509Svid>,
    /// Certificate revocation lists, in DER.
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub crl: Vec<Vec<u8>>,
    /// The authorities of other trust domains, by SPIFFE ID: certificates in DER, one after another.
    #[prost(map = "string, bytes", tag = "3")]
    pub federated_bundles: HashMap<String, Vec<u8>>,
}

/// An identity with its private key.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
pub struct X509Svid {
    /// The SPIFFE ID.
    #[prost(string, tag = "1")]
    pub spiffe_id: String,
    /// The certificate and its intermediates in DER, one after another, the leaf first.
    #[prost(bytes = "vec", tag = "2")]
    pub x509_svid: Vec<u8>,
    /// The private key of the leaf, in PKCS#8 DER.
    #[prost(bytes = "vec", tag = "3")]
    pub x509_svid_key: Vec<u8>,
    /// The authorities of the trust domain: certificates in DER, one after another.
    #[prost(bytes = "vec", tag = "4")]
    pub bundle: Vec<u8>,
    /// A hint of the operator how to use the identity.
    #[prost(string, tag = "5")]
    pub hint: String,
}

impl fmt::Debug for X509Svid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("X509Svid")
            .field("spiffe_id", &self.spiffe_id)
            .finish_non_exhaustive()
    }
}

/// The metadata key that each call must carry, against requests that a server was tricked to make.
pub const SECURITY_HEADER: &str = "workload.spiffe.io";

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;

    #[test]
    fn has_the_bytes_of_the_specification() {
        let svid = X509Svid {
            spiffe_id: "a".to_owned(),
            x509_svid: vec![1],
            x509_svid_key: vec![2],
            bundle: vec![3],
            hint: "h".to_owned(),
        };
        let bytes = b"\x0a\x01a\x12\x01\x01\x1a\x01\x02\x22\x01\x03\x2a\x01h";
        assert_eq!(svid.encode_to_vec(), bytes);
        let response = X509SvidResponse {
            svids: vec![svid],
            crl: vec![vec![4]],
            federated_bundles: [("b".to_owned(), vec![5])].into(),
        };
        let rest = b"\x12\x01\x04\x1a\x06\x0a\x01b\x12\x01\x05";
        let expected = [&[0x0a, 15][..], bytes, rest].concat();
        assert_eq!(response.encode_to_vec(), expected);
        assert_eq!(
            X509SvidResponse::decode(&expected[..]),
            Ok(response.clone())
        );
        assert!(!format!("{response:?}").contains("key"));
    }
}
