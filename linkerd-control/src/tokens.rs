//! Tokens of workloads: JSON Web Tokens (RFC 7519), verified offline against the key set of their issuer (RFC 7517).
//!
//! **Accepts** signatures by RSA (`RS256`, `RS384`, `RS512`) and by ECDSA (`ES256`, `ES384`). An algorithm belongs to the type
//! of a key, so that a token cannot choose another one: `none` and HMAC do not exist here.
//!
//! **Bounds.** A token has [`MAX_TOKEN`](verifier::MAX_TOKEN) bytes, a key set [`MAX_KEYS`](key_set::MAX_KEYS) keys.

mod error;
mod jws;
mod key_set;
mod verifier;

pub use error::{KeySetError, TokenError};
pub use verifier::TokenVerifier;
