//! The bounds of a service that a route's layers wrap.

use http::Response;
use linkerd_proxy_core::{
    Error,
    http::{HttpRequest, ResponseBody},
};
use tower_service::Service;

/// A service for requests of a route.
pub(super) trait HttpService:
    Service<HttpRequest, Response = Response<ResponseBody>, Error = Error, Future: 'static>
{
}

impl<S> HttpService for S where
    S: Service<HttpRequest, Response = Response<ResponseBody>, Error = Error, Future: 'static>
{
}

/// The size of the future of a request.
pub(super) fn future_bytes<S: HttpService>(_: &S) -> usize {
    size_of::<S::Future>()
}
