//! Filters of a route of either direction, or of a route's backend: changed headers, redirects, injected failures.

mod redirect;

use http::{HeaderMap, Response};
use linkerd_profiles::{FailureInjector, HeaderModifier, HttpFilter, InjectedFailure};
use linkerd_proxy_core::{
    Answer, Error, Reason, Refusable,
    http::{HttpRequest, ResponseBody},
};
use pin_project_lite::pin_project;
use rand::{RngExt, rngs::SmallRng};
use redirect::{RedirectLog, redirect};
use std::{
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};
use tower_layer::Layer;
use tower_service::Service;

/// Applies filters in their order; the first that answers ends the request.
///
/// - **Fails as** `InjectedFailure`, `Redirected`, `InvalidRedirect`.
#[derive(Clone, Debug)]
pub struct FiltersLayer(RequestFilters);

/// The filters of a rule, as they apply to requests.
///
/// - **Fails as** `InjectedFailure`, `Redirected`, `InvalidRedirect`.
#[derive(Clone, Debug)]
pub struct RequestFilters {
    filters: Rc<[HttpFilter]>,
    redirects: RedirectLog,
    rng: SmallRng,
}

/// See [`FiltersLayer`].
#[derive(Clone, Debug)]
pub struct Filters<S> {
    inner: S,
    filters: RequestFilters,
    /// Whether a filter changes responses.
    is_for_responses: bool,
}

impl FiltersLayer {
    /// Applies `filters`; `rng` draws the requests that fail.
    pub fn new(filters: &[HttpFilter], rng: SmallRng) -> Self {
        Self(RequestFilters::new(filters, rng))
    }
}

impl<S> Layer<S> for FiltersLayer {
    type Service = Filters<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let is_for_responses = |filter| matches!(filter, &HttpFilter::ResponseHeaders(_));
        Filters {
            inner,
            filters: self.0.clone(),
            is_for_responses: self.0.filters.iter().any(is_for_responses),
        }
    }
}

impl RequestFilters {
    /// Filters in their order; `rng` draws the requests that fail.
    pub fn new(filters: &[HttpFilter], rng: SmallRng) -> Self {
        Self {
            filters: filters.into(),
            redirects: RedirectLog::default(),
            rng,
        }
    }

    /// Applies the filters to a request. The first that answers ends it with an error.
    pub fn apply<B>(&mut self, request: &mut HttpRequest<B>) -> Result<(), Error> {
        for filter in &*self.filters {
            match filter {
                HttpFilter::InjectFailure(injector) => {
                    if self.rng.random_bool(injector.ratio.as_f64()) {
                        return Err(injected(injector));
                    }
                }
                HttpFilter::Redirect(rule) => {
                    let prefix = request.context().matched_prefix;
                    redirect(rule, request, prefix, &self.redirects)?;
                }
                HttpFilter::RequestHeaders(changes) => modify(request.headers_mut(), changes),
                HttpFilter::ResponseHeaders(_) => {}
            }
        }
        Ok(())
    }
}

impl<S> Service<HttpRequest> for Filters<S>
where
    S: Service<HttpRequest, Response = Response<ResponseBody>, Error = Error>,
{
    type Response = S::Response;
    type Error = Error;
    type Future = FiltersFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: HttpRequest) -> Self::Future {
        let inner = match self.filters.apply(&mut request) {
            Ok(()) => Refusable::called(self.inner.call(request)),
            Err(error) => Refusable::refused(error),
        };
        FiltersFuture {
            inner,
            filters: self.is_for_responses.then(|| self.filters.filters.clone()),
        }
    }
}

pin_project! {
    /// The future of [`Filters`].
    pub struct FiltersFuture<F> {
        #[pin]
        inner: Refusable<F, Error>,
        // If they change responses.
        filters: Option<Rc<[HttpFilter]>>,
    }
}

impl<F> Future for FiltersFuture<F>
where
    F: Future<Output = Result<Response<ResponseBody>, Error>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut result = ready!(this.inner.poll(cx));
        if let (Ok(response), Some(filters)) = (&mut result, this.filters) {
            for filter in &**filters {
                if let HttpFilter::ResponseHeaders(changes) = filter {
                    modify(response.headers_mut(), changes);
                }
            }
        }
        Poll::Ready(result)
    }
}

fn injected(injector: &FailureInjector) -> Error {
    let answer = match injector.failure {
        InjectedFailure::Status(status) => Answer {
            status: Some(status),
            ..Answer::default()
        },
        InjectedFailure::Grpc(code) => Answer {
            status: Some(http::StatusCode::OK),
            grpc_code: Some(code),
            location: None,
        },
    };
    Error::new(Reason::InjectedFailure)
        .detail(injector.message.clone())
        .answer(answer)
}

/// Adds, then sets, then removes.
fn modify(headers: &mut HeaderMap, changes: &HeaderModifier) {
    for (name, value) in &changes.add {
        headers.append(name, value.clone());
    }
    for (name, value) in &changes.set {
        headers.insert(name, value.clone());
    }
    for name in &changes.remove {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests;
