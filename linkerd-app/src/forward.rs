//! Requests to the only endpoint of a backend.

use futures::future::LocalBoxFuture;
use linkerd_proxy_core::http::HttpRequest;
use linkerd_proxy_core::{Error, Rejected, reason::Phase};
use std::task::{Context, Poll};
use tower_service::Service;

/// Sends requests to the only endpoint of a backend, and again when the endpoint returns them. A failure to connect fails the
/// request at once.
#[derive(Clone, Debug)]
pub struct Forward<S>(S);

impl<S> Forward<S> {
    /// Sends to `endpoint`.
    pub fn new(endpoint: S) -> Self {
        Self(endpoint)
    }
}

impl<S> Service<HttpRequest> for Forward<S>
where
    S: Service<HttpRequest, Error = Rejected<HttpRequest>> + Clone + 'static,
{
    type Response = S::Response;
    type Error = Error;
    type Future = LocalBoxFuture<'static, Result<S::Response, Error>>;

    /// Always ready: an endpoint that is not ready fails the request with the reason.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: HttpRequest) -> Self::Future {
        let mut endpoint = self.0.clone();
        Box::pin(async move {
            loop {
                let mut rejected = match endpoint.call(request).await {
                    Ok(response) => return Ok(response),
                    Err(rejected) => rejected,
                };
                let connecting = rejected.error.reason().row().phase == Phase::Connect;
                match rejected.request.take() {
                    Some(returned) if !connecting => request = returned,
                    Some(_) => return Err(rejected.into_final()),
                    None => return Err(rejected.error),
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MockStage, request};
    use http::Request;
    use linkerd_proxy_core::{
        Reason,
        http::{RequestBody, RequestContext},
    };
    use std::{cell::RefCell, future::Ready, rc::Rc};

    /// Rejects requests for these reasons, one after the other, and then answers.
    #[derive(Clone)]
    struct Rejecting(Rc<RefCell<Vec<Reason>>>);

    impl Service<HttpRequest> for Rejecting {
        type Response = ();
        type Error = Rejected<HttpRequest>;
        type Future = Ready<Result<(), Self::Error>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: HttpRequest) -> Self::Future {
            let reason = self.0.borrow_mut().pop();
            let reject = |reason| Err(Rejected::returned(reason, request));
            std::future::ready(reason.map_or(Ok(()), reject))
        }
    }

    async fn send(reasons: &[Reason]) -> Result<(), Reason> {
        let reasons = Rc::new(RefCell::new(reasons.to_vec()));
        let mut forward = Forward::new(Rejecting(reasons));
        let request = Request::new(RequestBody::empty());
        let sent = forward
            .call(HttpRequest::new(request, RequestContext::arriving(None)))
            .await;
        sent.map_err(|error| error.reason())
    }

    #[tokio::test]
    async fn a_lost_request_is_sent_again_and_a_refused_connection_fails_at_once() {
        assert_eq!(send(&[]).await, Ok(()));
        assert_eq!(send(&[Reason::ConnectionLost]).await, Ok(()));
        let refused = Reason::ConnectRefused;
        assert_eq!(send(&[refused]).await, Err(refused));
        assert_eq!(send(&[refused, Reason::StreamRefused]).await, Err(refused));
    }

    #[tokio::test]
    async fn is_ready_though_the_endpoint_is_not_and_gives_up_with_the_request() {
        let (mock, mut below) = MockStage::<_, (), _>::new();
        below.allow(0);
        let mut forward = tokio_test::task::spawn(Forward::new(mock));
        assert!(
            forward
                .enter(|cx, mut forward| forward.poll_ready(cx))
                .is_ready()
        );
        below.allow(1);
        let mut given_up = tokio_test::task::spawn(forward.call(request("")));
        assert!(given_up.poll().is_pending());
        let (request, respond) = below.next_request().await.unwrap();
        drop(given_up);
        respond.send_response(Err(Rejected::returned(Reason::ConnectionLost, request)));
        let mut again = tokio_test::task::spawn(below.next_request());
        assert!(again.poll().is_pending());
    }
}
