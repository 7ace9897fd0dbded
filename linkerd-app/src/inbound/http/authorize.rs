//! Refuses the requests of a client that is not let in.

use linkerd_proxy_core::{Error, Reason, Refusable, http::HttpRequest};
use std::{
    rc::Rc,
    task::{Context, Poll},
};
use tower_layer::Layer;
use tower_service::Service;

/// Lets all requests of a connection pass, or none, as was decided for it.
///
/// - **Fails as** `Unauthorized`.
#[derive(Clone, Debug)]
pub struct AuthorizeLayer(Option<Rc<Denial>>);

/// See [`AuthorizeLayer`].
#[derive(Clone, Debug)]
pub struct Authorize<S> {
    inner: S,
    denial: Option<Rc<Denial>>,
}

#[derive(Debug)]
struct Denial {
    reason: Reason,
    detail: String,
}

impl AuthorizeLayer {
    /// Passes requests on if the connection is authorized.
    pub fn new(authorized: Result<(), Error>) -> Self {
        let denial = |error: Error| {
            Rc::new(Denial {
                reason: error.reason(),
                detail: error.to_string(),
            })
        };
        Self(authorized.err().map(denial))
    }
}

impl Denial {
    fn error(&self, request: &HttpRequest) -> Error {
        let error = Error::new(self.reason).detail(self.detail.clone());
        match &request.context().client {
            Some(client) => error.context(format!("client {}", client.addr)),
            None => error,
        }
    }
}

impl<S> Layer<S> for AuthorizeLayer {
    type Service = Authorize<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let denial = self.0.clone();
        Authorize { inner, denial }
    }
}

impl<S> Service<HttpRequest> for Authorize<S>
where
    S: Service<HttpRequest, Error = Error>,
{
    type Response = S::Response;
    type Error = Error;
    type Future = Refusable<S::Future, Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: HttpRequest) -> Self::Future {
        match &self.denial {
            None => Refusable::called(self.inner.call(request)),
            Some(denial) => Refusable::refused(denial.error(&request)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MockStage, assert_readiness_passes, request};

    #[tokio::test]
    async fn a_denied_request_does_not_reach_the_application() {
        let (mock, mut below) = MockStage::<_, (), Error>::new();
        let denied = Err(Error::new(Reason::Unauthorized));
        let mut denying = AuthorizeLayer::new(denied).layer(mock.clone());
        let error = denying.call(request("")).await.unwrap_err();
        assert_eq!(error.reason(), Reason::Unauthorized);
        let mut reached = tokio_test::task::spawn(below.next_request());
        assert!(reached.poll().is_pending());

        let answer = AuthorizeLayer::new(Ok(())).layer(mock).call(request(""));
        let (_, respond) = reached.await.unwrap();
        respond.send_response(Err(Reason::ConnectRefused.into()));
        assert_eq!(answer.await.unwrap_err().reason(), Reason::ConnectRefused);
    }

    #[tokio::test]
    async fn is_ready_when_the_stage_below_is() {
        let (mock, mut below) = MockStage::<_, (), Error>::new();
        let stage = AuthorizeLayer::new(Ok(())).layer(mock);
        assert_readiness_passes::<_, HttpRequest, _, _>(stage, &mut below);
    }
}
