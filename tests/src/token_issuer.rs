//! An issuer of workloads' tokens.

use aws_lc_rs::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// Signs tokens for the audience of identities by a key of its own.
pub struct TokenIssuer(EcdsaKeyPair);

impl TokenIssuer {
    /// An issuer with a new key.
    #[allow(clippy::new_without_default, reason = "two of them differ")]
    pub fn new() -> Self {
        Self(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap())
    }

    /// The JSON Web Key Set.
    pub fn keys(&self) -> String {
        let point = self.0.public_key().as_ref();
        let (x, y) = (encode(&point[1..33]), encode(&point[33..]));
        json!({"keys": [{"kty": "EC", "crv": "P-256", "use": "sig", "x": x, "y": y}]}).to_string()
    }

    /// A token with this subject, for an hour.
    pub fn token(&self, subject: &str) -> String {
        self.sign(&json!({
            "aud": ["identity.l5d.io"], "exp": now() + 3600, "iss": "https://issuer.test", "nbf": now(), "sub": subject,
        }))
    }

    /// A token of these claims.
    pub fn sign(&self, claims: &Value) -> String {
        let header = json!({"alg": "ES256", "typ": "JWT"});
        let encode_json = |value: &Value| encode(value.to_string().as_bytes());
        let signed = format!("{}.{}", encode_json(&header), encode_json(claims));
        let signature = self.0.sign(&SystemRandom::new(), signed.as_bytes());
        format!("{signed}.{}", encode(signature.unwrap().as_ref()))
    }
}

/// The time in claims.
fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap().as_secs()
}

fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
