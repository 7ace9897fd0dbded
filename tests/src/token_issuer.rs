//! An issuer of workloads' tokens, as the API server of a cluster is one.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, get_current_timestamp};
use serde_json::json;

/// An issuer with one key.
pub struct TokenIssuer {
    key: EncodingKey,
    keys: String,
}

impl TokenIssuer {
    /// An issuer with a new key.
    #[allow(clippy::new_without_default)]
    #[must_use]
    pub fn new() -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let point = key.public_key_raw();
        let [x, y] = [&point[1..33], &point[33..65]].map(|part| URL_SAFE_NO_PAD.encode(part));
        let keys = json!({ "keys": [{
            "kty": "EC", "crv": "P-256", "x": x, "y": y, "kid": "one", "alg": "ES256", "use": "sig",
        }]});
        Self {
            key: EncodingKey::from_ec_der(key.serialized_der()),
            keys: keys.to_string(),
        }
    }

    /// The JSON web key set.
    #[must_use]
    pub fn keys(&self) -> &str {
        &self.keys
    }

    /// A token of a subject, for the audience of identity controllers.
    #[must_use]
    pub fn token(&self, subject: &str) -> String {
        let header = Header {
            kid: Some("one".to_owned()),
            ..Header::new(Algorithm::ES256)
        };
        let exp = get_current_timestamp() + 3600;
        let claims = json!({ "sub": subject, "aud": ["identity.l5d.io"], "exp": exp });
        encode(&header, &claims, &self.key).unwrap()
    }
}
