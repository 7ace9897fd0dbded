//! Header rules of the hop to an endpoint.

use crate::outbound::context::Context;
use http::{HeaderName, Response, header::HOST, uri::Authority};
use linkerd_profiles::Endpoint;
use linkerd_proxy_core::{
    Error, Reason, Rejected,
    http::{
        HttpRequest, L5D_PROXY_CONNECTION, L5D_PROXY_ERROR, ResponseBody, has_any, prepare_response,
    },
};
use pin_project_lite::pin_project;
use std::{
    pin::Pin,
    task::{Context as TaskContext, Poll},
};
use tower_layer::Layer;
use tower_service::Service;

/// Applies what the endpoint asks for, refuses identities that it cannot have, and keeps peers' proxy headers back.
#[derive(Clone, Debug)]
pub struct HeaderRulesLayer {
    authority_override: Option<Authority>,
}

/// See [`HeaderRulesLayer`].
#[derive(Clone, Debug)]
pub struct HeaderRules<S> {
    inner: S,
    authority_override: Option<Authority>,
}

impl HeaderRulesLayer {
    pub(super) fn new(ctx: &Context, endpoint: &Endpoint) -> Self {
        let overrides = !ctx.is_local(endpoint);
        Self {
            authority_override: endpoint
                .authority_override
                .as_deref()
                .filter(|_| overrides)
                .cloned(),
        }
    }
}

impl<S> Layer<S> for HeaderRulesLayer {
    type Service = HeaderRules<S>;

    fn layer(&self, inner: S) -> Self::Service {
        HeaderRules {
            inner,
            authority_override: self.authority_override.clone(),
        }
    }
}

pin_project! {
    /// The future of [`HeaderRules`].
    pub struct HeaderRulesFuture<F> {
        #[pin]
        inner: Option<F>,
        refused: Option<Error>,
    }
}

impl<F> Future for HeaderRulesFuture<F>
where
    F: Future<Output = Result<Response<ResponseBody>, Rejected<HttpRequest>>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Some(inner) = this.inner.as_pin_mut() {
            let mut polled = inner.poll(cx);
            if let Poll::Ready(Ok(response)) = &mut polled
                && let Err(error) = scrub(response)
            {
                return Poll::Ready(Err(Rejected::lost(error)));
            }
            return polled;
        }
        let error = this.refused.take().expect("a refusal is told once");
        Poll::Ready(Err(Rejected::lost(error)))
    }
}

impl<S> Service<HttpRequest> for HeaderRules<S>
where
    S: Service<HttpRequest, Response = Response<ResponseBody>, Error = Rejected<HttpRequest>>,
{
    type Response = Response<ResponseBody>;
    type Error = S::Error;
    type Future = HeaderRulesFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: HttpRequest) -> Self::Future {
        if has_any(request.headers(), &[L5D_REQUIRE_ID])
            && let Some(required) = request.headers_mut().remove(L5D_REQUIRE_ID)
            && let Ok(required) = required.to_str()
        {
            let detail = format!("required id {required}; found none");
            return HeaderRulesFuture {
                inner: None,
                refused: Some(Error::new(Reason::IdentityRequired).detail(detail)),
            };
        }
        if let Some(authority) = &self.authority_override {
            override_authority(&mut request, authority);
        }
        HeaderRulesFuture {
            inner: Some(self.inner.call(request)),
            refused: None,
        }
    }
}

fn override_authority(request: &mut HttpRequest, authority: &Authority) {
    let headers = request.headers_mut();
    headers.remove(HOST);
    headers.remove(L5D_DST_CANONICAL);
    if request.version() != http::Version::HTTP_2 && request.uri().authority().is_none() {
        // HTTP/1 in origin form has no other place for it.
        if let Ok(host) = authority.as_str().parse() {
            request.headers_mut().insert(HOST, host);
        }
        return;
    }
    let mut parts = std::mem::take(request.uri_mut()).into_parts();
    parts.scheme.get_or_insert(http::uri::Scheme::HTTP);
    parts.authority = Some(authority.clone());
    parts
        .path_and_query
        .get_or_insert(http::uri::PathAndQuery::from_static("/"));
    *request.uri_mut() =
        http::Uri::from_parts(parts).expect("scheme, authority and path are all there");
}

fn scrub(response: &mut Response<ResponseBody>) -> Result<(), Error> {
    if response.version() != http::Version::HTTP_2 {
        prepare_response(response)?;
    }
    scrub_proxy_headers(response);
    Ok(())
}

/// What a peer proxy says of its own errors is not for the application.
fn scrub_proxy_headers(response: &mut Response<ResponseBody>) {
    let headers = response.headers_mut();
    if has_any(headers, &[L5D_PROXY_ERROR, L5D_PROXY_CONNECTION]) {
        headers.remove(L5D_PROXY_ERROR);
        headers.remove(L5D_PROXY_CONNECTION);
    }
}

const L5D_REQUIRE_ID: HeaderName = HeaderName::from_static("l5d-require-id");
const L5D_DST_CANONICAL: HeaderName = HeaderName::from_static("l5d-dst-canonical");
