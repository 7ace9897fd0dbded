//! Names the logical service in the request: `l5d-dst-canonical`.

use http::{HeaderName, HeaderValue};
use linkerd_proxy_core::{Destination, http::HttpRequest};
use std::task::{Context, Poll};
use tower_layer::Layer;
use tower_service::Service;

/// Sets the header.
#[derive(Clone, Debug)]
pub struct CanonicalHeaderLayer(Option<HeaderValue>);

/// See [`CanonicalHeaderLayer`].
#[derive(Clone, Debug)]
pub struct CanonicalHeader<S> {
    inner: S,
    value: Option<HeaderValue>,
}

impl CanonicalHeaderLayer {
    /// Names this service. A name that no header can have is left out.
    pub fn new(name: &Destination) -> Self {
        Self(HeaderValue::try_from(name.as_str()).ok())
    }
}

impl<S> Layer<S> for CanonicalHeaderLayer {
    type Service = CanonicalHeader<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let value = self.0.clone();
        CanonicalHeader { inner, value }
    }
}

impl<S: Service<HttpRequest>> Service<HttpRequest> for CanonicalHeader<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: HttpRequest) -> Self::Future {
        if let Some(value) = &self.value {
            request
                .headers_mut()
                .insert(L5D_DST_CANONICAL, value.clone());
        }
        self.inner.call(request)
    }
}

const L5D_DST_CANONICAL: HeaderName = HeaderName::from_static("l5d-dst-canonical");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MockStage, assert_readiness_passes, request};

    /// The header of a request that a client sent with `l5d-dst-canonical: client`.
    async fn sent(name: &str) -> HeaderValue {
        let (mock, mut below) = MockStage::<_, (), ()>::new();
        let mut stage = CanonicalHeaderLayer::new(&name.parse().unwrap()).layer(mock);
        let mut request = request("");
        let client = HeaderValue::from_static("client");
        request.headers_mut().insert(L5D_DST_CANONICAL, client);
        let _response = stage.call(request);
        let (request, _) = below.next_request().await.unwrap();
        request.headers()[L5D_DST_CANONICAL].clone()
    }

    #[tokio::test]
    async fn the_name_replaces_that_of_a_client() {
        assert_eq!(sent("web.test:80").await, "web.test:80");
    }

    #[tokio::test]
    async fn is_ready_when_the_stage_below_is() {
        let (mock, mut below) = MockStage::<HttpRequest, (), ()>::new();
        let name = "web.test:80".parse().unwrap();
        let stage = CanonicalHeaderLayer::new(&name).layer(mock);
        assert_readiness_passes(stage, &mut below);
    }
}
