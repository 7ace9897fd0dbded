//! Counts requests by the routes of the profile of their service.

use crate::{
    inbound::{
        context::Context,
        profiles::{CountedProfileRoute, ProfiledService},
        service_name::service_authority,
    },
    profile_metrics::{ProfileCall, ProfileRouteMetrics},
    server::L5D_DST_CANONICAL,
};
use futures::future::LocalBoxFuture;
use http::Response;
use linkerd_proxy_core::{
    Error,
    http::{HttpRequest, ResponseBody},
    stack::ObserveCall,
};
use pin_project_lite::pin_project;
use std::{
    pin::Pin,
    rc::Rc,
    task::{Context as TaskContext, Poll},
};
use tower_layer::Layer;
use tower_service::Service;

/// Counts the requests of a connection by the routes of the profile of their service, and gives them the response classes of
/// their route.
///
/// The service is named by `l5d-dst-canonical`, which is from a proxy of the mesh, or else by the authority.
///
/// - **Sits** below the policy of the port: requests that are not let in are not counted.
/// - **Waits for** the first profile of a service, for `LINKERD2_PROXY_DESTINATION_PROFILE_INITIAL_TIMEOUT` after it was first
///   asked for; then a request goes on without a route.
/// - **Fails as** the stage below.
/// - **Metrics**: `route_*` with the direction inbound.
#[derive(Clone)]
pub struct ProfileRoutesLayer(Rc<Context>);

/// See [`ProfileRoutesLayer`].
pub struct CountByProfile<S> {
    inner: S,
    ctx: Rc<Context>,
    /// The authority of the last request, which the next one of a connection usually has as well.
    last: Option<Box<KnownAuthority>>,
}

/// An authority whose service was looked up.
struct KnownAuthority {
    text: Box<[u8]>,
    /// `None`: it has no profile.
    service: Option<Rc<ProfiledService>>,
}

impl ProfileRoutesLayer {
    /// Counts by the profiles of a worker.
    pub fn new(ctx: &Rc<Context>) -> Self {
        Self(ctx.clone())
    }
}

impl<S> Layer<S> for ProfileRoutesLayer {
    type Service = CountByProfile<S>;

    fn layer(&self, inner: S) -> Self::Service {
        CountByProfile {
            inner,
            ctx: self.0.clone(),
            last: None,
        }
    }
}

impl<S> CountByProfile<S> {
    /// The service of a request, if it has a profile.
    fn service(&mut self, request: &mut HttpRequest) -> Option<Rc<ProfiledService>> {
        let service = self.find(request);
        // The header is not for the application.
        request.headers_mut().remove(L5D_DST_CANONICAL);
        service
    }

    fn find(&mut self, request: &HttpRequest) -> Option<Rc<ProfiledService>> {
        let text = service_authority(request)?;
        match &self.last {
            Some(last) if *last.text == *text => last.service.clone(),
            _ => {
                let authority = std::str::from_utf8(text).ok()?;
                let service = self.ctx.profiles.of_authority(authority);
                self.last = Some(Box::new(KnownAuthority {
                    text: text.into(),
                    service: service.clone(),
                }));
                service
            }
        }
    }
}

impl<S> Service<HttpRequest> for CountByProfile<S>
where
    S: Service<HttpRequest, Response = Response<ResponseBody>, Error = Error> + Clone + 'static,
{
    type Response = Response<ResponseBody>;
    type Error = Error;
    type Future = ProfileRoutesFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: HttpRequest) -> Self::Future {
        match self.service(&mut request) {
            None => ProfileRoutesFuture::Called {
                counted: None,
                inner: self.inner.call(request),
            },
            Some(service) if service.awaits_answer() => {
                let mut inner = self.inner.clone();
                let waiting = async move {
                    service.answered().await;
                    called(&mut inner, request, &service).await
                };
                ProfileRoutesFuture::Waiting {
                    // Boxed: only the first requests for a service wait.
                    waiting: Box::pin(waiting),
                }
            }
            Some(service) => called(&mut self.inner, request, &service),
        }
    }
}

fn called<S>(
    inner: &mut S,
    mut request: HttpRequest,
    service: &ProfiledService,
) -> ProfileRoutesFuture<S::Future>
where
    S: Service<HttpRequest>,
{
    let counted = service.route(&request).map(|route| {
        let CountedProfileRoute { metrics, classes } = route;
        if let Some(classes) = classes {
            request.context_mut().response_classes = Some(classes);
        }
        let call = metrics.begin(&mut request);
        (metrics, call)
    });
    ProfileRoutesFuture::Called {
        counted,
        inner: inner.call(request),
    }
}

pin_project! {
    /// The future of [`CountByProfile`].
    #[project = ProfileRoutesProjection]
    pub enum ProfileRoutesFuture<F> {
        /// The stage below has the request.
        Called {
            #[pin]
            inner: F,
            // The series that count the request.
            counted: Option<(ProfileRouteMetrics, ProfileCall)>,
        },
        /// The request waits for the profile.
        Waiting {
            waiting: LocalBoxFuture<'static, Result<Response<ResponseBody>, Error>>,
        },
    }
}

impl<F> Future for ProfileRoutesFuture<F>
where
    F: Future<Output = Result<Response<ResponseBody>, Error>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        match self.project() {
            ProfileRoutesProjection::Waiting { waiting } => waiting.as_mut().poll(cx),
            ProfileRoutesProjection::Called { inner, counted } => {
                let mut polled = inner.poll(cx);
                if let (Poll::Ready(result), Some((metrics, call))) = (&mut polled, counted) {
                    match result {
                        Ok(response) => metrics.answered(call, response),
                        Err(error) => metrics.failed(call, error),
                    }
                }
                polled
            }
        }
    }
}
