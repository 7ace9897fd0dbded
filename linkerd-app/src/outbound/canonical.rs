//! Names the logical service in the request: `l5d-dst-canonical`.

use http::{HeaderName, HeaderValue};
use linkerd_proxy_core::{Destination, http::HttpRequest};
use std::task::{Context, Poll};
use tower_layer::Layer;
use tower_service::Service;

/// Sets the header, if the route has a value for it.
#[derive(Clone, Debug)]
pub struct CanonicalHeaderLayer(Option<HeaderValue>);

/// See [`CanonicalHeaderLayer`].
#[derive(Clone, Debug)]
pub struct CanonicalHeader<S> {
    inner: S,
    value: Option<HeaderValue>,
}

impl CanonicalHeaderLayer {
    /// A name that no header can have is left out.
    pub fn new(name: Option<&Destination>) -> Self {
        Self(name.and_then(|name| HeaderValue::try_from(name.as_str()).ok()))
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
