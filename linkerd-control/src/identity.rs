//! The identity API: certificates for proxies.

use crate::authority::Authority;
use crate::issuance::IdentityState;
use crate::state::ControllerState;
use linkerd_api_proto::identity::identity_server::Identity;
use linkerd_api_proto::identity::{CertifyRequest, CertifyResponse};
use parking_lot::Mutex;
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
        let request = request.into_inner();
        if request.token.is_empty() {
            return Err(Status::invalid_argument("a token is required"));
        }
        let (authority, lifetime) = {
            let identity = self.state.identity.lock();
            if let Some(failure) = &identity.failure {
                return Err(failure.clone());
            }
            let authority = identity.authority.clone();
            let none = || Status::unavailable("this controller has no authority");
            (authority.ok_or_else(none)?, identity.lifetime)
        };
        let csr = &request.certificate_signing_request;
        let leaf = authority.sign(csr, &request.identity, lifetime);
        let leaf = leaf.map_err(|error| Status::failed_precondition(error.to_string()))?;
        self.state.identity.lock().certified += 1;
        Ok(Response::new(CertifyResponse {
            leaf_certificate: leaf,
            intermediate_certificates: Vec::new(),
            valid_until: Some((SystemTime::now() + lifetime).into()),
        }))
    }
}
