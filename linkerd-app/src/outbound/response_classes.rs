//! Gives requests the response classes of their route.

use linkerd_proxy_core::http::{HttpRequest, ResponseClasses};
use std::{
    rc::Rc,
    task::{Context, Poll},
};
use tower_layer::Layer;
use tower_service::Service;

/// Puts response classes into the context of requests: the endpoint counts their responses by them.
#[derive(Clone, Debug)]
pub struct ResponseClassesLayer(Rc<ResponseClasses>);

/// See [`ResponseClassesLayer`].
#[derive(Clone, Debug)]
pub struct Classified<S> {
    inner: S,
    classes: Rc<ResponseClasses>,
}

impl ResponseClassesLayer {
    /// Gives requests these classes.
    pub fn new(classes: Rc<ResponseClasses>) -> Self {
        Self(classes)
    }
}

impl<S> Layer<S> for ResponseClassesLayer {
    type Service = Classified<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let classes = self.0.clone();
        Classified { inner, classes }
    }
}

impl<S: Service<HttpRequest>> Service<HttpRequest> for Classified<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: HttpRequest) -> Self::Future {
        request.context_mut().response_classes = Some(self.classes.clone());
        self.inner.call(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MockStage, assert_readiness_passes, request};

    fn layer() -> ResponseClassesLayer {
        ResponseClassesLayer::new(Rc::default())
    }

    #[tokio::test]
    async fn requests_have_the_classes_of_their_route() {
        let (mock, mut below) = MockStage::<_, (), ()>::new();
        let mut stage = layer().layer(mock);
        let _response = stage.call(request(""));
        let (request, _) = below.next_request().await.unwrap();
        let classes = request.context().response_classes.as_ref();
        assert!(Rc::ptr_eq(classes.unwrap(), &stage.classes));
    }

    #[tokio::test]
    async fn is_ready_when_the_stage_below_is() {
        let (mock, mut below) = MockStage::<HttpRequest, (), ()>::new();
        assert_readiness_passes(layer().layer(mock), &mut below);
    }
}
