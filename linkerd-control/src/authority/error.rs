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
    /// The request has a name of another kind.
    #[error("the request has {0}; it may have one name, a DNS name or a URI")]
    NameKind(String),
}

impl From<rcgen::Error> for AuthorityError {
    fn from(error: rcgen::Error) -> Self {
        Self::Certificate(error.to_string())
    }
}
