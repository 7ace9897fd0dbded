//! Verification of workloads' tokens, offline, by the public keys of their issuer.

use jsonwebtoken::{
    Algorithm, DecodingKey, Validation, decode, decode_header,
    jwk::{JwkSet, KeyAlgorithm},
};
use serde::Deserialize;
use std::str::FromStr;

/// The keys of the issuer of workloads' tokens, and the audience of the tokens.
///
/// A token is a JSON web token (RFC 7519) that one of the keys signed with an asymmetric algorithm, which has not expired, and whose
/// `aud` has the audience. Its `sub` is the name that it may have a certificate for: the name itself, or the service account of
/// Kubernetes `system:serviceaccount:NAMESPACE:ACCOUNT`, for names that begin with `ACCOUNT.NAMESPACE.serviceaccount.identity.`.
pub struct TokenKeys {
    keys: JwkSet,
    audience: String,
}

/// A set of keys that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenKeysError {
    /// It is no JSON, or no key set.
    #[error(
        "no JSON web key set (RFC 7517), such as `kubectl get --raw /openid/v1/jwks` prints: {0}"
    )]
    Format(serde_json::Error),
    /// It has no keys.
    #[error("the key set has no keys")]
    Empty,
}

/// A token that is not for a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenRefused {
    /// It is no token, or of a key or an algorithm that is not accepted.
    #[error("the token is no JSON web token of a known key: {0}")]
    Unknown(String),
    /// Its signature or its claims are invalid.
    #[error("the token is refused: {0}")]
    Invalid(String),
    /// It belongs to another workload.
    #[error("the token is that of {subject}, not of {name}")]
    Other {
        /// The `sub` of the token.
        subject: String,
        /// The requested name.
        name: String,
    },
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
}

impl TokenKeys {
    /// Reads a key set (RFC 7517).
    pub fn from_jwks(text: &str, audience: &str) -> Result<Self, TokenKeysError> {
        let keys: JwkSet = serde_json::from_str(text).map_err(TokenKeysError::Format)?;
        match keys.keys.is_empty() {
            true => Err(TokenKeysError::Empty),
            false => Ok(Self {
                keys,
                audience: audience.to_owned(),
            }),
        }
    }

    /// Checks that a token may have a certificate for `name`.
    pub fn verify(&self, token: &[u8], name: &str) -> Result<(), TokenRefused> {
        let unknown = |error: jsonwebtoken::errors::Error| TokenRefused::Unknown(error.to_string());
        let header = decode_header(token).map_err(unknown)?;
        if !ALGORITHMS.contains(&header.alg) {
            let text = format!("the algorithm {:?} is not accepted", header.alg);
            return Err(TokenRefused::Unknown(text));
        }
        let key = match &header.kid {
            Some(kid) => self.keys.find(kid),
            None => self.keys.keys.first().filter(|_| self.keys.keys.len() == 1),
        };
        let key = key.ok_or_else(|| TokenRefused::Unknown("no such key".to_owned()))?;
        // The key says what it is for, if it does: a token must not choose.
        let own = key
            .common
            .key_algorithm
            .map(|own: KeyAlgorithm| own.to_string());
        if own.is_some_and(|own| Algorithm::from_str(&own).ok() != Some(header.alg)) {
            return Err(TokenRefused::Unknown(
                "the key is for another algorithm".to_owned(),
            ));
        }
        let key = DecodingKey::from_jwk(key).map_err(unknown)?;
        let mut validation = Validation::new(header.alg);
        validation.set_audience(&[&self.audience]);
        validation.set_required_spec_claims(&["exp", "aud", "sub"]);
        validation.validate_nbf = true;
        let claims = decode::<Claims>(token, &key, &validation);
        let claims = claims.map_err(|error| TokenRefused::Invalid(error.to_string()))?;
        let subject = claims.claims.sub;
        match is_for(&subject, name) {
            true => Ok(()),
            false => Err(TokenRefused::Other {
                subject,
                name: name.to_owned(),
            }),
        }
    }
}

impl std::fmt::Debug for TokenKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenKeys")
            .field("keys", &self.keys.keys.len())
            .field("audience", &self.audience)
            .finish()
    }
}

/// Whether a subject may have a name.
fn is_for(subject: &str, name: &str) -> bool {
    if subject == name {
        return true;
    }
    let account = subject.strip_prefix("system:serviceaccount:");
    let Some((namespace, account)) = account.and_then(|account| account.split_once(':')) else {
        return false;
    };
    // The names of neither may have a dot, so that no other account has the same beginning.
    let is_label = |label: &str| !label.is_empty() && !label.contains(['.', ':']);
    let prefix = format!("{account}.{namespace}.serviceaccount.identity.");
    is_label(namespace) && is_label(account) && name.starts_with(&prefix)
}

/// Those of public keys. With HMAC, the public key would be the secret.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

#[cfg(test)]
mod tests {
    use super::*;
    use jsonwebtoken::{EncodingKey, Header, encode, get_current_timestamp};
    use serde_json::json;

    const NAME: &str = "web.shop.serviceaccount.identity.linkerd.cluster.local";
    const AUDIENCE: &str = "identity.l5d.io";

    /// A key and the set with its public half.
    fn key() -> (EncodingKey, String) {
        let key = rcgen::KeyPair::generate().unwrap();
        let point = key.public_key_raw();
        let encode = |bytes: &[u8]| {
            use base64::Engine;
            base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes)
        };
        let (x, y) = (encode(&point[1..33]), encode(&point[33..65]));
        let set = json!({ "keys": [{
            "kty": "EC", "crv": "P-256", "x": x, "y": y, "kid": "one", "alg": "ES256", "use": "sig",
        }]});
        (
            EncodingKey::from_ec_der(key.serialized_der()),
            set.to_string(),
        )
    }

    fn token(key: &EncodingKey, alg: Algorithm, claims: serde_json::Value) -> Vec<u8> {
        let header = Header {
            kid: Some("one".to_owned()),
            ..Header::new(alg)
        };
        encode(&header, &claims, key).unwrap().into_bytes()
    }

    fn claims(sub: &str) -> serde_json::Value {
        let exp = get_current_timestamp() + 600;
        json!({ "sub": sub, "aud": [AUDIENCE], "exp": exp })
    }

    #[test]
    fn a_token_is_for_its_own_name_alone() {
        let (key, set) = key();
        let keys = TokenKeys::from_jwks(&set, AUDIENCE).unwrap();
        let token = |sub: &str| token(&key, Algorithm::ES256, claims(sub));
        for sub in [NAME, "system:serviceaccount:shop:web"] {
            assert_eq!(keys.verify(&token(sub), NAME), Ok(()), "{sub}");
        }
        for sub in [
            "system:serviceaccount:shop:webx",
            "system:serviceaccount:other:web",
            "system:serviceaccount:shop:",
            "web",
            "",
        ] {
            let refused = keys.verify(&token(sub), NAME).unwrap_err();
            assert!(
                matches!(refused, TokenRefused::Other { .. }),
                "{sub}: {refused}"
            );
        }
        // An account with a dot has the name of no other account.
        let dotted = token("system:serviceaccount:shop.serviceaccount.identity.x:web");
        assert!(
            keys.verify(
                &dotted,
                "web.shop.serviceaccount.identity.x.serviceaccount.identity.y"
            )
            .is_err()
        );
    }

    #[test]
    fn forged_expired_and_foreign_tokens_are_refused() {
        let ((key, set), (other, _)) = (key(), key());
        let keys = TokenKeys::from_jwks(&set, AUDIENCE).unwrap();
        let with = |name: &str, value: serde_json::Value| {
            let mut all = claims(NAME);
            all[name] = value;
            token(&key, Algorithm::ES256, all)
        };
        let secret = EncodingKey::from_secret(set.as_bytes());
        let none = b"eyJhbGciOiJub25lIn0.eyJzdWIiOiJ3ZWIifQ.".to_vec();
        for (name, token) in [
            ("any text", b"token".to_vec()),
            ("no signature", none),
            ("another key", token(&other, Algorithm::ES256, claims(NAME))),
            (
                "a shared secret",
                token(&secret, Algorithm::HS256, claims(NAME)),
            ),
            ("expired", with("exp", json!(get_current_timestamp() - 600))),
            (
                "not yet valid",
                with("nbf", json!(get_current_timestamp() + 600)),
            ),
            ("another audience", with("aud", json!(["other"]))),
            ("no expiry", with("exp", json!(null))),
        ] {
            assert!(keys.verify(&token, NAME).is_err(), "{name}");
        }
    }

    #[test]
    fn a_set_without_keys_is_refused_with_the_fix() {
        let refused = |text| {
            TokenKeys::from_jwks(text, AUDIENCE)
                .unwrap_err()
                .to_string()
        };
        assert!(refused("no json").contains("kubectl get --raw /openid/v1/jwks"));
        assert!(refused(r#"{"keys": []}"#).contains("no keys"));
    }
}
