//! The identity API: certificates for proxies.

use crate::authority::Authority;
use crate::issuance::IdentityState;
use crate::state::ControllerState;
use crate::token_keys::TokenKeys;
use linkerd_api_proto::identity::identity_server::Identity;
use linkerd_api_proto::identity::{CertifyRequest, CertifyResponse};
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tonic::{Request, Response, Status};

/// The answers to requests for certificates, set by a test or a command.
///
/// Without an authority each request is answered with `UNAVAILABLE`.
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

    /// Sets the keys by which tokens are verified from now on. Without them any token is taken for any name.
    pub fn token_keys(&self, keys: impl Into<Arc<TokenKeys>>) -> &Self {
        self.identity().lock().token_keys = Some(keys.into());
        self
    }

    /// Sets names that are never signed, such as those of the controller itself. Wildcards never are.
    pub fn reserve<N: Into<String>>(&self, names: impl IntoIterator<Item = N>) -> &Self {
        let names = names.into_iter().map(Into::into);
        self.identity().lock().reserved = names.collect();
        self
    }

    /// The number of certificates issued.
    pub fn certified(&self) -> u64 {
        self.identity().lock().certified
    }

    fn identity(&self) -> &Mutex<IdentityState> {
        &self.state.identity
    }
}

/// The method of the API.
#[derive(Clone)]
pub(crate) struct IdentityApi {
    state: Arc<ControllerState>,
}

impl IdentityApi {
    pub(crate) fn new(state: Arc<ControllerState>) -> Self {
        Self { state }
    }
}

#[tonic::async_trait]
impl Identity for IdentityApi {
    async fn certify(
        &self,
        request: Request<CertifyRequest>,
    ) -> Result<Response<CertifyResponse>, Status> {
        let client = request.extensions().get::<SocketAddr>().copied();
        let request = request.into_inner();
        let name = &request.identity;
        if request.token.is_empty() {
            return Err(Status::invalid_argument("a token is required"));
        }
        let (authority, lifetime, keys) = {
            let identity = self.state.identity.lock();
            if let Some(failure) = &identity.failure {
                return Err(failure.clone());
            }
            if identity.is_reserved(name) {
                tracing::warn!(?client, %name, "refused a certificate for a reserved name");
                let text = format!(
                    "{name} is a name of the controller, or a wildcard, and is never signed"
                );
                return Err(Status::permission_denied(text));
            }
            let authority = identity.authority.clone();
            let none = || Status::unavailable("this controller has no authority");
            (
                authority.ok_or_else(none)?,
                identity.lifetime,
                identity.token_keys.clone(),
            )
        };
        if let Some(keys) = keys
            && let Err(error) = keys.verify(&request.token, name)
        {
            tracing::warn!(?client, %name, %error, "refused a certificate");
            return Err(Status::permission_denied(error.to_string()));
        }
        let csr = &request.certificate_signing_request;
        let signed = authority.sign(csr, name, lifetime);
        let signed = signed.map_err(|error| Status::failed_precondition(error.to_string()))?;
        let number = {
            let mut identity = self.state.identity.lock();
            identity.certified += 1;
            identity.certified
        };
        tracing::info!(?client, %name, serial = signed.serial, number, "issued a certificate");
        Ok(Response::new(CertifyResponse {
            leaf_certificate: signed.certificate,
            intermediate_certificates: Vec::new(),
            valid_until: Some((SystemTime::now() + lifetime).into()),
        }))
    }
}
