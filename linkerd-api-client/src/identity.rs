//! Certificates, by the call `Identity.Certify`.

use crate::client::{ApiClient, ApiService};
use futures::{FutureExt, StreamExt, future::LocalBoxFuture};
use linkerd_api_proto::{
    identity::{CertifyRequest, CertifyResponse},
    stream::method,
};
use linkerd_proxy_core::{
    subscription::Status,
    tls::{CertificateRequest, CertificateSource, CertifyError, IssuedCertificate},
};
use std::time::SystemTime;

/// The identity controller as a source of certificates.
pub struct GrpcCertificateSource<T> {
    client: ApiClient<T>,
}

impl<T: ApiService> GrpcCertificateSource<T> {
    /// A source over a gRPC service.
    pub fn new(service: T) -> Self {
        Self {
            client: ApiClient::new(service),
        }
    }
}

impl<T: ApiService> CertificateSource for GrpcCertificateSource<T> {
    fn certify(
        &self,
        request: CertificateRequest,
    ) -> LocalBoxFuture<'_, Result<IssuedCertificate, CertifyError>> {
        let request = CertifyRequest {
            identity: request.identity.to_string(),
            token: request.token,
            certificate_signing_request: request.request,
        };
        let call = self.client.call(method::CERTIFY, request, issued);
        async move {
            let refused = |status: Status| CertifyError::Refused(status.to_string());
            let mut messages = call.await.map_err(refused)?;
            match messages.next().await {
                Some(message) => message.map_err(refused)?,
                None => Err(CertifyError::Refused(
                    "the identity controller has sent no certificate".to_owned(),
                )),
            }
        }
        .boxed_local()
    }
}

fn issued(message: CertifyResponse) -> Result<IssuedCertificate, CertifyError> {
    let leaf = std::iter::once(message.leaf_certificate);
    let chain = leaf.chain(message.intermediate_certificates);
    let valid_until = message.valid_until.ok_or(CertifyError::NoExpiry)?;
    Ok(IssuedCertificate {
        chain: chain.map(Into::into).collect(),
        valid_until: SystemTime::try_from(valid_until).map_err(|_| CertifyError::NoExpiry)?,
    })
}
