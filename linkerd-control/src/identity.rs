//! The identity API: certificates for proxies.

use crate::authority::{Authority, SignedCertificate};
use crate::issuance::{CertificateCounts, IdentityState};
use crate::state::ControllerState;
use crate::tokens::{TokenError, TokenVerifier};
use linkerd_api_proto::identity::identity_server::Identity;
use linkerd_api_proto::identity::{CertifyRequest, CertifyResponse};
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;
use tonic::{Request, Response, Status};

/// The answers to requests for certificates, set by a test or a command.
///
/// Without an authority each request is answered with `UNAVAILABLE`. Without a verifier of tokens, each token that is not empty
/// permits each name that is not reserved.
#[derive(Clone)]
pub struct IdentityScript {
    state: Arc<ControllerState>,
}

impl IdentityScript {
    pub(crate) fn new(state: Arc<ControllerState>) -> Self {
        Self { state }
    }

    /// Sets the authority that signs from now on.
    pub fn authority(&self, authority: impl Into<Arc<Authority>>) -> &Self {
        self.identity().lock().authority = Some(authority.into());
        self
    }

    /// Sets the verifier of tokens: from now on a certificate needs a token that permits its name.
    pub fn tokens(&self, tokens: TokenVerifier) -> &Self {
        self.identity().lock().tokens = Some(Arc::new(tokens));
        self
    }

    /// Adds names that are never issued. `*.a.test` stands for all names that end in `.a.test`.
    pub fn reserve(&self, names: &[impl AsRef<str>]) -> &Self {
        self.identity().lock().reserved.add(names);
        self
    }

    /// Sets the lifetime of the certificates issued from now on.
    pub fn lifetime(&self, lifetime: Duration) -> &Self {
        self.identity().lock().lifetime = lifetime;
        self
    }

    /// Answers each request with a status, until [`restore`](Self::restore).
    pub fn fail(&self, status: Status) -> &Self {
        self.identity().lock().failure = Some(status);
        self
    }

    /// Ends failures.
    pub fn restore(&self) -> &Self {
        self.identity().lock().failure = None;
        self
    }

    /// The number of certificates issued.
    pub fn certified(&self) -> u64 {
        self.counts().issued
    }

    /// The requests for certificates, by their outcome.
    pub fn counts(&self) -> CertificateCounts {
        self.identity().lock().counts
    }

    fn identity(&self) -> &Mutex<IdentityState> {
        &self.state.identity
    }
}

/// The method of the API, for the connection of one client.
#[derive(Clone)]
pub(crate) struct IdentityApi {
    state: Arc<ControllerState>,
    client: SocketAddr,
}

/// A refused request: the answer, and its place in the counts.
struct Refusal {
    status: Status,
    count: fn(&mut CertificateCounts) -> &mut u64,
}

impl IdentityApi {
    pub(crate) fn new(state: Arc<ControllerState>, client: SocketAddr) -> Self {
        Self { state, client }
    }

    /// Signs the request, if its token permits its name.
    fn issue(
        &self,
        request: &CertifyRequest,
        authority: &Authority,
        lifetime: Duration,
    ) -> Result<SignedCertificate, Refusal> {
        if request.token.is_empty() {
            return Err(Refusal::of_token(Status::invalid_argument(
                "a token is required",
            )));
        }
        let (name, tokens) = {
            let identity = self.state.identity.lock();
            let name = identity.reserved.allow(&request.identity);
            (name, identity.tokens.clone())
        };
        let name = name.map_err(|error| Refusal {
            status: Status::permission_denied(error.to_string()),
            count: |counts| &mut counts.refused_name,
        })?;
        if let Some(tokens) = tokens {
            // Outside of the lock: a signature of RSA takes some ten microseconds.
            let token = std::str::from_utf8(&request.token);
            let token = token.map_err(|_| TokenError::Malformed("it is no text"));
            let verified = token.and_then(|token| tokens.verify(token, &name, SystemTime::now()));
            verified.map_err(|error| Refusal::of_token(status(&error)))?;
        }
        let signed = authority.sign(&request.certificate_signing_request, &name, lifetime);
        signed.map_err(|error| Refusal {
            status: Status::failed_precondition(error.to_string()),
            count: |counts| &mut counts.refused_request,
        })
    }

    fn report(&self, name: &str, outcome: &Result<SignedCertificate, Refusal>) {
        let mut identity = self.state.identity.lock();
        let client = self.client;
        match outcome {
            Ok(SignedCertificate { serial, .. }) => {
                identity.counts.issued += 1;
                drop(identity);
                tracing::info!(%client, name, serial, "Certificate issued");
            }
            Err(Refusal { status, count }) => {
                *count(&mut identity.counts) += 1;
                let Some(left_out) = identity.refusals.take(Instant::now()) else {
                    return;
                };
                drop(identity);
                let name: String = name.chars().take(MAX_SHOWN).collect();
                let error = status.message();
                tracing::warn!(%client, name, error, left_out, "Certificate refused");
            }
        }
    }
}

impl Refusal {
    fn of_token(status: Status) -> Self {
        Self {
            status,
            count: |counts| &mut counts.refused_token,
        }
    }
}

#[tonic::async_trait]
impl Identity for IdentityApi {
    async fn certify(
        &self,
        request: Request<CertifyRequest>,
    ) -> Result<Response<CertifyResponse>, Status> {
        let request = request.into_inner();
        let (authority, lifetime) = {
            let identity = self.state.identity.lock();
            if let Some(failure) = &identity.failure {
                return Err(failure.clone());
            }
            let authority = identity.authority.clone();
            let none = || Status::unavailable("this controller has no authority");
            (authority.ok_or_else(none)?, identity.lifetime)
        };
        let outcome = self.issue(&request, &authority, lifetime);
        self.report(&request.identity, &outcome);
        let signed = outcome.map_err(|refusal| refusal.status)?;
        Ok(Response::new(CertifyResponse {
            leaf_certificate: signed.der,
            intermediate_certificates: Vec::new(),
            valid_until: Some((SystemTime::now() + lifetime).into()),
        }))
    }
}

fn status(error: &TokenError) -> Status {
    let message = error.to_string();
    match error {
        // The client is known, and may not have this name.
        TokenError::Subject { .. } | TokenError::NoDomain(_) => Status::permission_denied(message),
        _ => Status::unauthenticated(message),
    }
}

/// Characters of a refused name that the log shows.
const MAX_SHOWN: usize = 253;
