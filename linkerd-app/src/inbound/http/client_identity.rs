//! The header with the identity of the client, for the application.

use crate::server::L5D_CLIENT_ID;
use http::HeaderValue;
use linkerd_proxy_core::{http::HttpRequest, tls::TlsStatus};
use std::task::{Context, Poll};
use tower_layer::Layer;
use tower_service::Service;

/// Sets `l5d-client-id` to the verified identity of the client.
///
/// - **Sits** below the layer that removes the header of the same name from clients' requests.
/// - **Fails as**, **waits for**: the stage below.
#[derive(Clone, Debug)]
pub struct ClientIdentityLayer(HeaderValue);

/// See [`ClientIdentityLayer`].
#[derive(Clone, Debug)]
pub struct ClientIdentity<S> {
    inner: S,
    identity: HeaderValue,
}

impl ClientIdentityLayer {
    /// A layer for a connection with this encryption; `None` without an identity.
    pub fn new(tls: &TlsStatus) -> Option<Self> {
        let identity = tls.identity()?.as_str();
        HeaderValue::try_from(identity).ok().map(Self)
    }
}

impl<S> Layer<S> for ClientIdentityLayer {
    type Service = ClientIdentity<S>;

    fn layer(&self, inner: S) -> Self::Service {
        ClientIdentity {
            inner,
            identity: self.0.clone(),
        }
    }
}

impl<S: Service<HttpRequest>> Service<HttpRequest> for ClientIdentity<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: HttpRequest) -> S::Future {
        let headers = request.headers_mut();
        headers.insert(L5D_CLIENT_ID, self.identity.clone());
        self.inner.call(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MockStage, assert_readiness_passes, request, response};
    use http::Response;
    use linkerd_proxy_core::{Error, http::ResponseBody, tls::NoTlsReason};

    type Stage = MockStage<HttpRequest, Response<ResponseBody>, Error>;

    fn layer() -> ClientIdentityLayer {
        let identity = "web.test".parse().unwrap();
        ClientIdentityLayer::new(&TlsStatus::Meshed(Some(identity))).unwrap()
    }

    #[tokio::test]
    async fn the_application_learns_the_verified_identity() {
        let (mock, mut below) = Stage::new();
        let answered = layer().layer(mock).call(request(""));
        let (request, respond) = below.next_request().await.unwrap();
        assert_eq!(request.headers()[L5D_CLIENT_ID], "web.test");
        respond.send_response(Ok(response("")));
        assert!(answered.await.is_ok());
    }

    #[test]
    fn without_an_identity_there_is_no_header() {
        let plain = TlsStatus::None(NoTlsReason::NoTlsFromRemote);
        for tls in [plain, TlsStatus::Meshed(None)] {
            assert!(ClientIdentityLayer::new(&tls).is_none());
        }
    }

    #[tokio::test]
    async fn is_ready_when_the_stage_below_is() {
        let (mock, mut below) = Stage::new();
        assert_readiness_passes(layer().layer(mock), &mut below);
    }
}
