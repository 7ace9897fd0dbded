//! Layers that are added to a route: each takes its own place in this file, and one line of the route's stack.

use super::{TestProxy, forward, in_process, policy};
use crate::outbound::{
    HttpBackends, HttpRoutes, HttpService,
    router::{Refusal, RouteService, Router, Routes},
};
use crate::testing::{TestEndpoint, request};
use ::http::{Response, StatusCode, Version};
use futures::future::LocalBoxFuture;
use http_body_util::BodyExt;
use linkerd_profiles::{Discovered, Target};
use linkerd_proxy_core::{
    Error, Shared,
    http::{
        BodyEnd, HttpRequest, Now, ObserveRequest, ObserveResponse, ObservedRequest,
        ObservedResponse, ResponseBody,
    },
    metrics::Labels,
};
use serde_json::Value;
use std::{
    cell::RefCell,
    rc::Rc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::Instant;
use tower::{Layer, layer::layer_fn};
use tower_service::Service;

const WEB: &str = "10.1.0.1:80";
const A: &str = "10.0.0.1:8080";

/// The routes of a target, with layers of the test on each.
struct TestRoutes<L> {
    routes: Rc<HttpRoutes>,
    features: L,
}

impl<L> Routes for TestRoutes<L>
where
    L: Layer<HttpBackends, Service: HttpService + 'static> + Clone + 'static,
{
    type Request = HttpRequest;
    type Response = Response<ResponseBody>;

    type Snapshot = RouteService<Self>;

    fn snapshot(self: &Rc<Self>, discovered: &Discovered) -> Result<RouteService<Self>, Refusal> {
        let routing = discovered.http(Version::HTTP_11).unwrap();
        let rule = &routing.table.rules()[0];
        Ok(self
            .routes
            .http_route(&routing, rule, Labels::new(), self.features.clone()))
    }

    fn replaced(&self, _: Option<&RouteService<Self>>) {}

    fn inspect(&self, _: Option<&RouteService<Self>>) -> Value {
        Routes::inspect(&*self.routes, None)
    }
}

/// Answers by itself.
#[derive(Clone, Copy)]
struct Answer;

impl Service<HttpRequest> for Answer {
    type Response = Response<ResponseBody>;
    type Error = Error;
    type Future = std::future::Ready<Result<Self::Response, Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: HttpRequest) -> Self::Future {
        let answer = Response::builder().status(StatusCode::IM_A_TEAPOT);
        let answer = answer.body("by itself").unwrap();
        std::future::ready(Ok(ResponseBody::full(answer)))
    }
}

/// Holds each request for a while.
struct Delay {
    inner: Shared<HttpRequest, Response<ResponseBody>, Error>,
}

const DELAY: Duration = Duration::from_secs(5);

impl Service<HttpRequest> for Delay {
    type Response = Response<ResponseBody>;
    type Error = Error;
    type Future = LocalBoxFuture<'static, Result<Self::Response, Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: HttpRequest) -> Self::Future {
        let mut inner = self.inner.clone();
        Box::pin(async move {
            tokio::time::sleep(DELAY).await;
            inner.call(request).await
        })
    }
}

/// Records the data of requests and responses.
struct Watch<S> {
    inner: S,
    notes: Rc<Notes>,
}

#[derive(Default)]
struct Notes(RefCell<Vec<String>>);

impl ObserveRequest for Notes {
    fn data(&self, _: &ObservedRequest, len: usize, _: &Now) {
        self.0.borrow_mut().push(format!("request: {len}"));
    }
}

impl ObserveResponse for Notes {
    fn data(&self, _: &ObservedResponse<'_>, len: usize, _: &Now) {
        self.0.borrow_mut().push(format!("response: {len}"));
    }

    fn end(&self, _: &ObservedResponse<'_>, end: BodyEnd<'_>, _: &Now) {
        self.0.borrow_mut().push(format!("response: {end:?}"));
    }
}

impl<S: HttpService> Service<HttpRequest> for Watch<S> {
    type Response = Response<ResponseBody>;
    type Error = Error;
    type Future = LocalBoxFuture<'static, Result<Self::Response, Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: HttpRequest) -> Self::Future {
        let (notes, start) = (self.notes.clone(), request.context().arrived);
        request.body_mut().observe(&notes, start);
        let response = self.inner.call(request);
        Box::pin(async move {
            let mut response = response.await?;
            response.body_mut().observe(notes, start);
            Ok(response)
        })
    }
}

/// A router of a target with these layers on its routes.
async fn router<L>(proxy: &TestProxy, features: L) -> Router<TestRoutes<L>>
where
    L: Layer<HttpBackends, Service: HttpService + 'static> + Clone + 'static,
{
    proxy.source.set_policy(WEB, policy(forward(A)));
    let target = WEB.parse::<Target>().unwrap();
    let mut watch = proxy.ctx.policies.discover(target.clone()).unwrap();
    let discovered = watch.ready().await.unwrap();
    let routes = Rc::new(HttpRoutes::new(&proxy.ctx, &target, Version::HTTP_11));
    Router::new(&watch, &discovered, TestRoutes { routes, features })
}

async fn text(response: Response<ResponseBody>) -> String {
    let body = response.into_body().collect().await.unwrap();
    String::from_utf8(body.to_bytes().into()).unwrap()
}

fn delay() -> impl Layer<HttpBackends, Service = Delay> + Clone {
    layer_fn(|inner| Delay {
        inner: Shared::new(inner),
    })
}

#[tokio::test(start_paused = true)]
async fn a_layer_answers_by_itself_and_the_route_counts_it() {
    in_process(async |proxy| {
        let endpoint = TestEndpoint::answering(&proxy.network, A, "never");
        let mut router = router(&proxy, layer_fn(|_| Answer)).await;
        let response = router.call(request("hello")).await.unwrap();
        assert_eq!(response.status(), StatusCode::IM_A_TEAPOT);
        assert_eq!(text(response).await, "by itself");
        assert_eq!(endpoint.requests(), 0);
        let statuses = "outbound_http_route_request_statuses_total";
        let counted = proxy.metric(statuses, &["http_status=\"418\"", "error=\"\""]);
        assert_eq!(counted, 1.0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_layer_delays_and_a_request_that_is_dropped_meanwhile_is_not_sent() {
    in_process(async |proxy| {
        let endpoint = TestEndpoint::answering(&proxy.network, A, "late");
        let mut router = router(&proxy, delay()).await;
        let start = Instant::now();
        let response = router.call(request("hello")).await.unwrap();
        assert_eq!(start.elapsed(), DELAY);
        assert_eq!(text(response).await, "late");
        let mut dropped = tokio_test::task::spawn(router.call(request("hello")));
        assert!(dropped.poll().is_pending());
        tokio::time::sleep(DELAY / 2).await;
        drop(dropped);
        tokio::time::sleep(DELAY).await;
        assert_eq!(endpoint.requests(), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_layer_watches_the_bodies_of_both_directions() {
    in_process(async |proxy| {
        let _endpoint = TestEndpoint::answering(&proxy.network, A, "welcome");
        let notes = Rc::new(Notes::default());
        let watch = notes.clone();
        let features = layer_fn(move |inner| Watch {
            inner,
            notes: watch.clone(),
        });
        let mut router = router(&proxy, (features, delay())).await;
        let response = router.call(request("hello")).await.unwrap();
        assert_eq!(text(response).await, "welcome");
        let seen = ["request: 5", "response: 7", "response: Complete(None)"];
        assert_eq!(*notes.0.borrow(), seen);
    })
    .await;
}
