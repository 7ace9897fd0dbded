//! A mock of the stage below the one under test.

use futures::{FutureExt, future::LocalBoxFuture};
use http::{HeaderValue, Request, Response, Version, header::CONTENT_TYPE};
use linkerd_proxy_core::http::{HttpRequest, RequestBody, RequestContext, ResponseBody};
use std::task::{Context, Poll};
use tower_service::Service;
use tower_test::mock::{self, Handle, Mock};

/// The stage below, as the one under test sees it. It may be called without being polled, as all stages may that are
/// ready.
pub struct MockStage<Req, Rsp, E>(Mock<Req, Result<Rsp, E>>);

/// The stage below, as the test sees it.
pub type BelowStage<Req, Rsp, E> = Handle<Req, Result<Rsp, E>>;

impl<Req, Rsp, E> MockStage<Req, Rsp, E> {
    /// A stage that is ready, and its handle.
    pub fn new() -> (Self, BelowStage<Req, Rsp, E>) {
        let (mock, handle) = mock::pair();
        (Self(mock), handle)
    }
}

impl<Req, Rsp, E> Clone for MockStage<Req, Rsp, E> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<Req, Rsp, E> Service<Req> for MockStage<Req, Rsp, E>
where
    Req: 'static,
    Rsp: 'static,
    E: 'static,
{
    type Response = Rsp;
    type Error = E;
    type Future = LocalBoxFuture<'static, Result<Rsp, E>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), E>> {
        self.0.poll_ready(cx).map(|ready| {
            ready.expect("the test keeps the handle");
            Ok(())
        })
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let ready = self
            .0
            .poll_ready(&mut Context::from_waker(futures::task::noop_waker_ref()));
        assert!(ready.is_ready(), "the test allows the call");
        let answered = self.0.call(request);
        answered
            .map(|answered| answered.expect("the test answers"))
            .boxed_local()
    }
}

/// Checks that a layer is ready when the stage below is, and not before.
pub fn assert_readiness_passes<S, Req, Rsp, E>(stage: S, below: &mut BelowStage<Req, Rsp, E>)
where
    S: Service<Req> + Unpin,
{
    let mut stage = tokio_test::task::spawn(stage);
    below.allow(0);
    let ready = stage.enter(|cx, mut stage| stage.poll_ready(cx));
    assert!(ready.is_pending());
    below.allow(1);
    assert!(stage.is_woken());
    let ready = stage.enter(|cx, mut stage| stage.poll_ready(cx));
    assert!(matches!(ready, Poll::Ready(Ok(()))));
}

/// A request that arrives now, with a body unless that is empty.
pub fn request(body: &'static str) -> HttpRequest {
    let request = Request::post("/").header("host", "test.example");
    let request = request.body(RequestBody::full(body)).expect("it is valid");
    HttpRequest::new(request, RequestContext::arriving(None))
}

/// A gRPC request that arrives now, without a body.
pub fn grpc_request() -> HttpRequest {
    let mut request = request("");
    *request.version_mut() = Version::HTTP_2;
    let grpc = HeaderValue::from_static("application/grpc");
    request.headers_mut().insert(CONTENT_TYPE, grpc);
    request
}

/// A response with a body, unless that is empty.
pub fn response(body: &'static str) -> Response<ResponseBody> {
    ResponseBody::full(Response::new(body))
}
