//! The file of the keys that verify tokens, which is followed: an issuer replaces its keys.

use linkerd_control::{IdentityScript, KeySetError, TokenVerifier};
use linkerd_proxy_core::task::spawn_local;
use std::{
    fs::File,
    io::{self, Read},
    path::PathBuf,
    time::Duration,
};
use tokio::{task::JoinHandle, time::sleep};

/// The tokens that permit a name.
#[derive(Clone, Debug)]
pub struct TokenOptions {
    /// The key set of the issuer, in JSON.
    pub keys: PathBuf,
    /// The audience of the tokens.
    pub audience: String,
    /// The issuer of the tokens. `None`: any that has signed by a key of the set.
    pub issuer: Option<String>,
    /// The domain of names of service accounts, such as `linkerd.cluster.local`. `None`: they have no names.
    pub service_account_domain: Option<String>,
}

/// Follows the file until dropped.
pub(super) struct TokenKeysFollower(JoinHandle<()>);

/// Errors of the file.
#[derive(Debug, thiserror::Error)]
pub(super) enum TokenKeysError {
    #[error("{}: {error}; `--token-keys` names the file", path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("{}: {error}; `kubectl get --raw /openid/v1/jwks` prints the key set of a cluster", path.display())]
    Unusable { path: PathBuf, error: KeySetError },
}

impl TokenOptions {
    /// Verifies tokens from now on by the keys of the file, and by those that it gets later.
    pub(super) fn follow(
        self,
        identity: IdentityScript,
    ) -> Result<TokenKeysFollower, TokenKeysError> {
        let mut text = self.text()?;
        let verifier = self.verifier(&text)?;
        tracing::info!(keys = verifier.keys(), "Tokens are verified by the key set");
        identity.tokens(verifier);
        Ok(TokenKeysFollower(spawn_local(async move {
            let mut refused = None;
            loop {
                sleep(POLL).await;
                let read = self.text();
                if matches!(&read, Ok(read) if *read == text) {
                    continue;
                }
                let outcome = read.and_then(|read| Ok((self.verifier(&read)?, read)));
                match outcome {
                    Ok((verifier, read)) => {
                        tracing::info!(keys = verifier.keys(), "Key set of tokens read again");
                        identity.tokens(verifier);
                        (text, refused) = (read, None);
                    }
                    Err(error) => {
                        // A file that stays wrong has one line.
                        let error = Some(error.to_string());
                        if error != refused {
                            let error = error.as_deref().unwrap_or_default();
                            tracing::error!(error, "Key set refused; the last good one stays");
                        }
                        refused = error;
                    }
                }
            }
        })))
    }

    fn text(&self) -> Result<String, TokenKeysError> {
        let read = || {
            let mut text = String::new();
            File::open(&self.keys)?
                .take(MAX_FILE)
                .read_to_string(&mut text)?;
            Ok(text)
        };
        read().map_err(|error| TokenKeysError::Unreadable {
            path: self.keys.clone(),
            error,
        })
    }

    fn verifier(&self, text: &str) -> Result<TokenVerifier, TokenKeysError> {
        let unusable = |error| TokenKeysError::Unusable {
            path: self.keys.clone(),
            error,
        };
        let mut verifier = TokenVerifier::new(text, &self.audience).map_err(unusable)?;
        if let Some(issuer) = &self.issuer {
            verifier = verifier.issuer(issuer);
        }
        if let Some(domain) = &self.service_account_domain {
            verifier = verifier.service_accounts(domain);
        }
        Ok(verifier)
    }
}

impl Drop for TokenKeysFollower {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Short compared to the time between a new key and the first token that it signs.
const POLL: Duration = Duration::from_secs(5);

/// A key set with the most keys has some 60 KiB.
const MAX_FILE: u64 = 1 << 20;
