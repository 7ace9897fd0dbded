//! Checks of a request, and the removal of what is meant for one hop only.

use http::{HeaderMap, HeaderName, Version};
use linkerd_proxy_core::{
    Error, Refusable,
    http::{HttpRequest, add_host, decline_upgrade, has_any, prepare_request},
};
use std::task::{Context, Poll};
use tower_layer::Layer;
use tower_service::Service;

/// Checks the message (RFC 9110, 9112), removes hop-by-hop fields, and keeps an upgrade only where it is asked for.
///
/// - **Fails as** `InvalidRequest`, `InvalidFraming`.
#[derive(Clone, Copy, Debug)]
pub struct NormaliseLayer {
    /// The version of the connection.
    pub version: Version,
    /// Whether clients may be lying about what only proxies may say: who the client is, and what it asked for.
    pub removes_claims: bool,
}

/// See [`NormaliseLayer`].
#[derive(Clone, Debug)]
pub struct Normalise<S> {
    inner: S,
    rules: NormaliseLayer,
}

impl NormaliseLayer {
    fn apply(self, request: &mut HttpRequest) -> Result<(), Error> {
        if self.removes_claims {
            remove_claims(request.headers_mut());
            request.body_mut().scrub_trailers(remove_claims);
        }
        if !prepare_request(request)? {
            decline_upgrade(request);
        }
        if self.version != Version::HTTP_2 {
            add_host(request);
        }
        Ok(())
    }
}

impl<S> Layer<S> for NormaliseLayer {
    type Service = Normalise<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let rules = *self;
        Normalise { inner, rules }
    }
}

impl<S> Service<HttpRequest> for Normalise<S>
where
    S: Service<HttpRequest, Error = Error>,
{
    type Response = S::Response;
    type Error = Error;
    type Future = Refusable<S::Future, Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: HttpRequest) -> Self::Future {
        match self.rules.apply(&mut request) {
            Ok(()) => Refusable::called(self.inner.call(request)),
            Err(error) => Refusable::refused(error),
        }
    }
}

/// Removes what only proxies may say: who the client is, and what it asked for.
pub fn remove_claims(headers: &mut HeaderMap) {
    if has_any(headers, &[L5D_CLIENT_ID, L5D_DST_CANONICAL]) {
        headers.remove(L5D_CLIENT_ID);
        headers.remove(L5D_DST_CANONICAL);
    }
}

const L5D_CLIENT_ID: HeaderName = HeaderName::from_static("l5d-client-id");
const L5D_DST_CANONICAL: HeaderName = HeaderName::from_static("l5d-dst-canonical");
