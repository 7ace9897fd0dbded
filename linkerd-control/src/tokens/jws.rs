//! The compact form of a signed token (RFC 7515, 3.1).

use super::error::TokenError;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Deserialize;

/// A token's parts, of which only [`signature`](Self::signature) says that they are true.
pub(super) struct SignedToken<'a> {
    pub(super) header: TokenHeader,
    /// The bytes that are signed.
    pub(super) signed: &'a str,
    pub(super) signature: Vec<u8>,
    payload: Vec<u8>,
}

#[derive(Deserialize)]
pub(super) struct TokenHeader {
    pub(super) alg: String,
    pub(super) kid: Option<String>,
    // Extensions that must be understood; none is.
    crit: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
pub(super) struct Claims {
    pub(super) iss: Option<String>,
    pub(super) sub: String,
    pub(super) aud: Option<Audiences>,
    pub(super) exp: Option<f64>,
    pub(super) nbf: Option<f64>,
}

/// One audience, or several.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Audiences {
    One(String),
    Several(Vec<String>),
}

impl<'a> SignedToken<'a> {
    pub(super) fn parse(token: &'a str) -> Result<Self, TokenError> {
        let parts = token
            .rsplit_once('.')
            .and_then(|(signed, signature)| Some((signed, signed.split_once('.')?, signature)));
        let (signed, (header, payload), signature) =
            parts.ok_or(TokenError::Malformed("it has no three parts"))?;
        let header = decode(header)?;
        let header: TokenHeader = serde_json::from_slice(&header)
            .map_err(|_| TokenError::Malformed("its header is no JSON with `alg`"))?;
        if header.crit.is_some() {
            return Err(TokenError::Malformed("its header has extensions (`crit`)"));
        }
        Ok(Self {
            header,
            signed,
            signature: decode(signature)?,
            payload: decode(payload)?,
        })
    }

    /// The claims, to be read when the signature is right.
    pub(super) fn claims(&self) -> Result<Claims, TokenError> {
        serde_json::from_slice(&self.payload)
            .map_err(|_| TokenError::Malformed("its claims are no JSON with a text `sub`"))
    }
}

impl Audiences {
    pub(super) fn has(&self, audience: &str) -> bool {
        match self {
            Self::One(one) => one == audience,
            Self::Several(several) => several.iter().any(|one| one == audience),
        }
    }
}

fn decode(part: &str) -> Result<Vec<u8>, TokenError> {
    URL_SAFE_NO_PAD
        .decode(part)
        .map_err(|_| TokenError::Malformed("a part is no base64url"))
}
