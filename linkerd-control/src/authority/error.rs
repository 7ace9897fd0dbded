/// A certificate that cannot be issued, or an authority that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthorityError {
    /// A key or a certificate cannot be made or read.
    #[error("{0}")]
    Certificate(String),
    /// There is no private key in PEM.
    #[error(
        "there is no private key in PEM; `openssl pkey -inform DER -in KEY -out NEW` converts one in DER"
    )]
    NoKey,
    /// The PEM has a section of another kind in place of a private key.
    #[error("there is no private key in PEM, only {0}")]
    OtherSection(String),
    /// The private key is encrypted.
    #[error("the private key is encrypted; decrypt it with `openssl pkey -in KEY -out NEW`")]
    EncryptedKey,
    /// The private key is one of OpenSSH.
    #[error(
        "the private key is in the form of OpenSSH; convert a copy of it with `ssh-keygen -p -m PKCS8 -f COPY`"
    )]
    OpenSshKey,
    /// The private key has a form that is known, and an algorithm that is not.
    #[error(
        "the private key ({0}) cannot be used: it is damaged, or of another kind than ECDSA with a named curve (P-256, P-384, P-521), Ed25519 and RSA of 2048 bits or more"
    )]
    KeyKind(&'static str),
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
