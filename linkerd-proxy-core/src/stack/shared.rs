//! The edge of a stage.

use futures::future::LocalBoxFuture;
use std::{
    cell::RefCell,
    rc::Rc,
    task::{Context, Poll},
};
use tower_service::Service;

/// A service at the edge of a stage: type-erased, with a boxed future, and shared by its copies.
pub struct Shared<Req, Rsp, E>(Rc<RefCell<dyn Boxed<Req, Rsp, E>>>);

/// A service whose future is boxed by the call.
trait Boxed<Req, Rsp, E> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), E>>;
    fn call(&mut self, request: Req) -> LocalBoxFuture<'static, Result<Rsp, E>>;
}

impl<Req, S> Boxed<Req, S::Response, S::Error> for S
where
    S: Service<Req, Future: 'static>,
{
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Service::poll_ready(self, cx)
    }

    fn call(&mut self, request: Req) -> LocalBoxFuture<'static, Result<S::Response, S::Error>> {
        Box::pin(Service::call(self, request))
    }
}

impl<Req, Rsp, E> Shared<Req, Rsp, E> {
    /// Hides the type of a service.
    pub fn new<S>(service: S) -> Self
    where
        S: Service<Req, Response = Rsp, Error = E, Future: 'static> + 'static,
    {
        Self(Rc::new(RefCell::new(service)))
    }
}

impl<Req, Rsp, E> Clone for Shared<Req, Rsp, E> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<Req, Rsp, E> std::fmt::Debug for Shared<Req, Rsp, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl<Req, Rsp, E> Service<Req> for Shared<Req, Rsp, E> {
    type Response = Rsp;
    type Error = E;
    type Future = LocalBoxFuture<'static, Result<Rsp, E>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), E>> {
        // The borrow ends before the future runs, and stages do not contain themselves.
        self.0.borrow_mut().poll_ready(cx)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        self.0.borrow_mut().call(request)
    }
}

#[cfg(test)]
mod tests {
    use super::Shared;
    use tokio_test::{assert_pending, assert_ready_ok, task::spawn};
    use tower_service::Service;
    use tower_test::mock;

    #[tokio::test]
    async fn copies_share_the_service_and_its_readiness() {
        let (mock, mut handle) = mock::pair::<u8, u8>();
        let shared = Shared::new(mock);
        let mut copies = [(); 2].map(|()| spawn(shared.clone()));
        handle.allow(0);
        assert_pending!(copies[0].enter(|cx, mut copy| copy.poll_ready(cx)));
        handle.allow(1);
        assert!(copies[0].is_woken());
        assert_ready_ok!(copies[0].enter(|cx, mut copy| copy.poll_ready(cx)));
        let response = copies[1].call(1);
        let (request, respond) = handle.next_request().await.unwrap();
        respond.send_response(request + 1);
        assert_eq!(response.await.unwrap(), 2);
        assert_pending!(copies[0].enter(|cx, mut copy| copy.poll_ready(cx)));
    }

    #[tokio::test]
    async fn errors_pass_and_a_call_outlives_its_copy() {
        let (mock, mut handle) = mock::pair::<u8, u8>();
        let mut shared = spawn(Shared::new(mock));
        assert_ready_ok!(shared.enter(|cx, mut shared| shared.poll_ready(cx)));
        let response = shared.call(1);
        drop(shared);
        let (_, respond) = handle.next_request().await.unwrap();
        respond.send_error("failed");
        assert_eq!(response.await.unwrap_err().to_string(), "failed");
    }
}
