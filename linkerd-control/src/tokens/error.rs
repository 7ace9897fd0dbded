/// A token that does not permit a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It is no JSON Web Token, or is longer than tokens are.
    #[error("the token is no signed JSON Web Token: {0}")]
    Malformed(&'static str),
    /// Its algorithm is none of those that are verified.
    #[error("the token is signed by {0:?}; sign by RS256, RS384, RS512, ES256 or ES384")]
    Algorithm(String),
    /// The key set has no key for it.
    #[error("the token is signed by a key that the key set does not have; its `kid` is {0:?}")]
    UnknownKey(Option<String>),
    /// The signature is wrong.
    #[error("the token's signature is wrong")]
    Signature,
    /// It has expired, or has no expiry.
    #[error("the token has expired, or has no `exp`")]
    Expired,
    /// It is not valid yet.
    #[error("the token is not valid yet; compare the clocks of this host and of the issuer")]
    NotYetValid,
    /// It was made for another audience.
    #[error("the token is for another audience than {0:?}")]
    Audience(String),
    /// It was made by another issuer.
    #[error("the token is of another issuer than {0:?}")]
    Issuer(String),
    /// Its subject is another workload.
    #[error("the token is of {subject:?}, and the request is for {name}")]
    Subject {
        /// The subject of the token, and the name that belongs to it.
        subject: String,
        /// The requested name.
        name: String,
    },
    /// Its subject is a service account, whose names end in an unknown domain.
    #[error(
        "the token is of the service account {0:?}, and names of service accounts have no domain here"
    )]
    NoDomain(String),
}

/// A key set that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeySetError {
    /// It is no JSON of this form.
    #[error("it is no JSON Web Key Set: {0}")]
    Malformed(String),
    /// A key is damaged, or too short.
    #[error("key {position} ({kid:?}) cannot be used: {problem}")]
    Key {
        /// The position, from 0.
        position: usize,
        /// Its name.
        kid: Option<String>,
        /// The reason.
        problem: &'static str,
    },
    /// There are too many keys.
    #[error("it has {found} keys; at most {limit} can be used")]
    TooMany {
        /// The number of keys.
        found: usize,
        /// The most keys.
        limit: usize,
    },
    /// There is no key that can verify a signature.
    #[error(
        "it has no key that verifies signatures by RS256, RS384, RS512, ES256 or ES384; write {{\"keys\": [...]}} with public keys of the type RSA or EC"
    )]
    NoKeys,
}
