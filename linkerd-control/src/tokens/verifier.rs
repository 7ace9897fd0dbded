use super::{
    error::{KeySetError, TokenError},
    jws::{Claims, SignedToken},
    key_set::KeySet,
};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Verifies that a token permits a name.
///
/// A token permits the name that is its subject (`sub`). The token of a Kubernetes service account, whose subject is
/// `system:serviceaccount:NAMESPACE:ACCOUNT`, permits `ACCOUNT.NAMESPACE.serviceaccount.identity.DOMAIN`.
#[derive(Clone, Debug)]
pub struct TokenVerifier {
    keys: KeySet,
    audience: String,
    issuer: Option<String>,
    accounts: Option<String>,
}

impl TokenVerifier {
    /// A verifier of tokens for `audience` that are signed by a key of the set, in JSON.
    pub fn new(key_set: &str, audience: impl Into<String>) -> Result<Self, KeySetError> {
        Ok(Self {
            keys: KeySet::parse(key_set)?,
            audience: audience.into(),
            issuer: None,
            accounts: None,
        })
    }

    /// Requires this issuer (`iss`).
    pub fn issuer(mut self, issuer: impl Into<String>) -> Self {
        self.issuer = Some(issuer.into());
        self
    }

    /// Permits names of service accounts, in this domain: such as `linkerd.cluster.local`, the namespace of the control plane and
    /// the trust domain.
    pub fn service_accounts(mut self, domain: impl AsRef<str>) -> Self {
        self.accounts = Some(domain.as_ref().to_ascii_lowercase());
        self
    }

    /// The number of keys.
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Whether the token permits `name` at the time `now`; returns the token's subject.
    pub fn verify(&self, token: &str, name: &str, now: SystemTime) -> Result<String, TokenError> {
        if token.len() > MAX_TOKEN {
            return Err(TokenError::Malformed("it is longer than 16 KiB"));
        }
        // Files end with a newline.
        let token = SignedToken::parse(token.trim_ascii())?;
        self.keys.verify(&token)?;
        let claims = token.claims()?;
        self.is_current(&claims, now)?;
        self.is_ours(&claims)?;
        self.permits(&claims.sub, name)?;
        Ok(claims.sub)
    }

    fn is_current(&self, claims: &Claims, now: SystemTime) -> Result<(), TokenError> {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (now, skew) = (now.as_secs_f64(), CLOCK_SKEW.as_secs_f64());
        // A comparison that is false for what is no number refuses.
        if !claims.exp.is_some_and(|exp| now < exp + skew) {
            return Err(TokenError::Expired);
        }
        match claims.nbf.is_none_or(|nbf| nbf <= now + skew) {
            true => Ok(()),
            false => Err(TokenError::NotYetValid),
        }
    }

    fn is_ours(&self, claims: &Claims) -> Result<(), TokenError> {
        let audiences = claims.aud.as_ref();
        if !audiences.is_some_and(|audiences| audiences.has(&self.audience)) {
            return Err(TokenError::Audience(self.audience.clone()));
        }
        match &self.issuer {
            Some(issuer) if claims.iss.as_ref() != Some(issuer) => {
                Err(TokenError::Issuer(issuer.clone()))
            }
            _ => Ok(()),
        }
    }

    fn permits(&self, subject: &str, name: &str) -> Result<(), TokenError> {
        let shown = || subject.chars().take(MAX_SHOWN).collect::<String>();
        let permitted = match service_account(subject) {
            None => subject.to_owned(),
            Some((namespace, account)) => {
                let domain = self.accounts.as_ref();
                let domain = domain.ok_or_else(|| TokenError::NoDomain(shown()))?;
                format!("{account}.{namespace}.serviceaccount.identity.{domain}")
            }
        };
        // Names in DNS have no case, URIs have.
        let is_permitted = match name.contains("://") {
            true => permitted == name,
            false => permitted.eq_ignore_ascii_case(name),
        };
        match is_permitted {
            true => Ok(()),
            false => Err(TokenError::Subject {
                subject: shown(),
                name: name.chars().take(MAX_SHOWN).collect(),
            }),
        }
    }
}

/// The namespace and the name of the service account that is the subject of a token.
fn service_account(subject: &str) -> Option<(&str, &str)> {
    let (namespace, account) = subject
        .strip_prefix("system:serviceaccount:")?
        .split_once(':')?;
    // A namespace has no dot. With one, account and namespace could be split at another place of the same name.
    (!namespace.contains('.')).then_some((namespace, account))
}

/// The longest token. Those of Kubernetes have about 1 KiB.
pub(super) const MAX_TOKEN: usize = 16 * 1024;

/// The tolerated difference between the clocks of the issuer and of this host.
const CLOCK_SKEW: Duration = Duration::from_secs(20);

/// Characters of a subject and of a name that an error shows: those of a DNS name.
const MAX_SHOWN: usize = 253;

#[cfg(test)]
mod tests;
