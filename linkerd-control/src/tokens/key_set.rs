//! A JSON Web Key Set, and the verification of a signature by one of its keys.

use super::{
    error::{KeySetError, TokenError},
    jws::SignedToken,
};
use aws_lc_rs::{
    rsa::PublicKeyComponents,
    signature::{
        self, ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, RSA_PKCS1_2048_8192_SHA256,
        RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, UnparsedPublicKey,
    },
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Deserialize;

/// The public keys of an issuer.
#[derive(Clone, Debug)]
pub(super) struct KeySet {
    keys: Vec<NamedKey>,
}

#[derive(Clone, Debug)]
struct NamedKey {
    kid: Option<String>,
    /// The only algorithm of the key; all of its type if `None`.
    algorithm: Option<String>,
    key: PublicKey,
}

#[derive(Clone, Debug)]
enum PublicKey {
    Rsa(PublicKeyComponents<Vec<u8>>),
    /// The point, uncompressed.
    P256(Vec<u8>),
    P384(Vec<u8>),
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<Jwk>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl KeySet {
    pub(super) fn parse(json: &str) -> Result<Self, KeySetError> {
        let document: Document = serde_json::from_str(json)
            .map_err(|error| KeySetError::Malformed(error.to_string()))?;
        if document.keys.len() > MAX_KEYS {
            return Err(KeySetError::TooMany {
                found: document.keys.len(),
                limit: MAX_KEYS,
            });
        }
        let mut keys = Vec::new();
        for (position, jwk) in document.keys.into_iter().enumerate() {
            if jwk
                .purpose
                .as_deref()
                .is_some_and(|purpose| purpose != "sig")
            {
                continue;
            }
            let key = PublicKey::of(&jwk).map_err(|problem| KeySetError::Key {
                position,
                kid: jwk.kid.clone(),
                problem,
            })?;
            // Keys of other types are for others.
            keys.extend(key.map(|key| NamedKey {
                kid: jwk.kid,
                algorithm: jwk.alg,
                key,
            }));
        }
        match keys.is_empty() {
            true => Err(KeySetError::NoKeys),
            false => Ok(Self { keys }),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether a key of the set has signed the token.
    pub(super) fn verify(&self, token: &SignedToken<'_>) -> Result<(), TokenError> {
        let algorithm = &*token.header.alg;
        if !ALGORITHMS.contains(&algorithm) {
            let shown = algorithm.chars().take(MAX_SHOWN).collect();
            return Err(TokenError::Algorithm(shown));
        }
        let kid = &token.header.kid;
        let is_named = |key: &&NamedKey| kid.is_none() || key.kid.is_none() || key.kid == *kid;
        let is_for = |key: &&NamedKey| {
            key.algorithm.as_deref().is_none_or(|own| own == algorithm) && key.key.has(algorithm)
        };
        let mut candidates = self.keys.iter().filter(is_named).filter(is_for).peekable();
        if candidates.peek().is_none() {
            let shown = kid
                .as_ref()
                .map(|kid| kid.chars().take(MAX_SHOWN).collect());
            return Err(TokenError::UnknownKey(shown));
        }
        match candidates.any(|key| key.key.has_signed(algorithm, token)) {
            true => Ok(()),
            false => Err(TokenError::Signature),
        }
    }
}

impl PublicKey {
    /// `None` for keys of other types.
    fn of(jwk: &Jwk) -> Result<Option<Self>, &'static str> {
        match (&*jwk.kty, jwk.crv.as_deref()) {
            ("RSA", _) => {
                let (n, e) = (field(&jwk.n, "`n`")?, field(&jwk.e, "`e`")?);
                let (n, e) = (without_zeros(n), without_zeros(e));
                // A modulus of other sizes verifies nothing.
                match n.len() {
                    0..256 => Err("an RSA key of less than 2048 bits is no protection"),
                    256..=1024 => Ok(Some(Self::Rsa(PublicKeyComponents { n, e }))),
                    _ => Err("an RSA key has 8192 bits at most"),
                }
            }
            ("EC", Some("P-256")) => Ok(Some(Self::P256(point(jwk, 32)?))),
            ("EC", Some("P-384")) => Ok(Some(Self::P384(point(jwk, 48)?))),
            _ => Ok(None),
        }
    }

    fn has(&self, algorithm: &str) -> bool {
        match self {
            Self::Rsa(_) => algorithm.starts_with("RS"),
            Self::P256(_) => algorithm == "ES256",
            Self::P384(_) => algorithm == "ES384",
        }
    }

    fn has_signed(&self, algorithm: &str, token: &SignedToken<'_>) -> bool {
        let (message, signature) = (token.signed.as_bytes(), &token.signature);
        let ec = |algorithm: &'static signature::EcdsaVerificationAlgorithm, point: &Vec<u8>| {
            UnparsedPublicKey::new(algorithm, point).verify(message, signature)
        };
        let verified = match self {
            Self::Rsa(key) => {
                let algorithm = match algorithm {
                    "RS256" => &RSA_PKCS1_2048_8192_SHA256,
                    "RS384" => &RSA_PKCS1_2048_8192_SHA384,
                    _ => &RSA_PKCS1_2048_8192_SHA512,
                };
                key.verify(algorithm, message, signature)
            }
            Self::P256(point) => ec(&ECDSA_P256_SHA256_FIXED, point),
            Self::P384(point) => ec(&ECDSA_P384_SHA384_FIXED, point),
        };
        verified.is_ok()
    }
}

fn field(value: &Option<String>, name: &'static str) -> Result<Vec<u8>, &'static str> {
    let problem = match name {
        "`n`" => "`n` is missing, or no base64url",
        "`e`" => "`e` is missing, or no base64url",
        "`x`" => "`x` is missing, or no base64url",
        _ => "`y` is missing, or no base64url",
    };
    let bytes = value.as_ref().map(|text| URL_SAFE_NO_PAD.decode(text));
    bytes.and_then(Result::ok).ok_or(problem)
}

fn without_zeros(mut bytes: Vec<u8>) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes.drain(..zeros);
    bytes
}

fn point(jwk: &Jwk, size: usize) -> Result<Vec<u8>, &'static str> {
    let (x, y) = (field(&jwk.x, "`x`")?, field(&jwk.y, "`y`")?);
    if (x.len(), y.len()) != (size, size) {
        return Err("`x` and `y` have not the size of the curve's numbers");
    }
    Ok([&[UNCOMPRESSED][..], &x, &y].concat())
}

/// The most keys: an issuer has one or two, and each may be tried for a token without `kid`.
pub(super) const MAX_KEYS: usize = 64;

const ALGORITHMS: [&str; 5] = ["RS256", "RS384", "RS512", "ES256", "ES384"];

/// The form of a point with both coordinates (SEC 1, 2.3.3).
const UNCOMPRESSED: u8 = 4;

/// Characters of a token's header that an error shows.
const MAX_SHOWN: usize = 60;
