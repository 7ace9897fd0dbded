//! Prepares requests for the route of a profile.

use http::{HeaderName, HeaderValue};
use linkerd_proxy_core::{
    Destination,
    http::{HttpRequest, ResponseClasses},
};
use std::{
    rc::Rc,
    task::{Context, Poll},
};
use tower_layer::Layer;
use tower_service::Service;

/// Names the logical service in the header `l5d-dst-canonical`, and puts the route's response classes into the request's
/// context: the endpoint counts responses by them.
#[derive(Clone, Debug)]
pub struct ProfileRequestLayer(Params);

/// See [`ProfileRequestLayer`].
#[derive(Clone, Debug)]
pub struct ProfileRequest<S> {
    inner: S,
    params: Params,
}

#[derive(Clone, Debug)]
struct Params {
    canonical: Option<HeaderValue>,
    classes: Option<Rc<ResponseClasses>>,
}

impl ProfileRequestLayer {
    /// Names the service `logical`, if that is a valid header value. `classes` are the response classes of the route, if any.
    pub fn new(logical: &Destination, classes: Option<Rc<ResponseClasses>>) -> Self {
        Self(Params {
            canonical: HeaderValue::try_from(logical.as_str()).ok(),
            classes,
        })
    }
}

impl<S> Layer<S> for ProfileRequestLayer {
    type Service = ProfileRequest<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let params = self.0.clone();
        ProfileRequest { inner, params }
    }
}

impl<S: Service<HttpRequest>> Service<HttpRequest> for ProfileRequest<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: HttpRequest) -> Self::Future {
        let Params { canonical, classes } = &self.params;
        if let Some(classes) = classes {
            request.context_mut().response_classes = Some(classes.clone());
        }
        if let Some(canonical) = canonical {
            let headers = request.headers_mut();
            headers.insert(L5D_DST_CANONICAL, canonical.clone());
        }
        self.inner.call(request)
    }
}

const L5D_DST_CANONICAL: HeaderName = HeaderName::from_static("l5d-dst-canonical");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MockStage, assert_readiness_passes, request};

    fn layer(classes: Option<Rc<ResponseClasses>>) -> ProfileRequestLayer {
        ProfileRequestLayer::new(&"web.test:80".parse().unwrap(), classes)
    }

    #[tokio::test]
    async fn the_name_replaces_that_of_a_client() {
        let (mock, mut below) = MockStage::<_, (), ()>::new();
        let mut stage = layer(None).layer(mock);
        let mut request = request("");
        let client = HeaderValue::from_static("client");
        request.headers_mut().insert(L5D_DST_CANONICAL, client);
        let _response = stage.call(request);
        let (request, _) = below.next_request().await.unwrap();
        assert_eq!(request.headers()[L5D_DST_CANONICAL], "web.test:80");
    }

    #[tokio::test]
    async fn requests_have_the_classes_of_their_route() {
        let (mock, mut below) = MockStage::<_, (), ()>::new();
        let classes = Rc::<ResponseClasses>::default();
        let mut stage = layer(Some(classes.clone())).layer(mock);
        let _response = stage.call(request(""));
        let (request, _) = below.next_request().await.unwrap();
        let of_request = request.context().response_classes.as_ref();
        assert!(Rc::ptr_eq(of_request.unwrap(), &classes));
    }

    #[tokio::test]
    async fn is_ready_when_the_stage_below_is() {
        let (mock, mut below) = MockStage::<HttpRequest, (), ()>::new();
        assert_readiness_passes(layer(None).layer(mock), &mut below);
    }
}
