use super::*;
use crate::testing::{
    BelowStage, MockStage, TestMetrics, assert_readiness_passes, grpc_request, request, response,
};
use http::{HeaderName, HeaderValue, StatusCode};
use http_body_util::BodyExt;
use linkerd_profiles::{ProfileMatch, ProfileRoute};
use linkerd_proxy_core::{
    ObserveLayer, Reason, Unavailable,
    http::{ResponseClass, ResponseMatch},
    stack::Observe,
};
use std::time::Duration;
use tower_layer::Layer;
use tower_service::Service;

type Stage = MockStage<HttpRequest, Response<ResponseBody>, Error>;
type Below = BelowStage<HttpRequest, Response<ResponseBody>, Error>;

const RESPONSES: &str = "route_response_total";

/// A class for failures, another for successes.
fn classes() -> Rc<ResponseClasses> {
    let class = |condition, is_failure| ResponseClass {
        condition,
        is_failure,
    };
    Rc::new(ResponseClasses::new(vec![
        class(ResponseMatch::Status(404..=404), true),
        class(ResponseMatch::Status(502..=502), false),
    ]))
}

struct Route {
    metrics: TestMetrics,
    classes: Option<Rc<ResponseClasses>>,
    stage: Observe<Stage, ProfileRouteMetrics>,
    below: Below,
}

impl Route {
    fn new(classes: Option<Rc<ResponseClasses>>) -> Self {
        let metrics = TestMetrics::new();
        let mut route = ProfileRoute::new(ProfileMatch::EVERY);
        route.labels.insert("route".into(), "books".into());
        let labels =
            ProfileRouteFamilies::labels("outbound", &"web.test:80".parse().unwrap(), &route)
                .into();
        let families = &metrics.families.profile_route;
        let observer = ProfileRouteMetrics::of_requests(families, &labels, classes.clone());
        let (mock, below) = Stage::new();
        Self {
            stage: ObserveLayer::new(observer).layer(mock),
            metrics,
            classes,
            below,
        }
    }

    /// Answers a request as an endpoint does, and counts it.
    async fn answer(&mut self, request: HttpRequest, status: u16, code: Option<&'static str>) {
        let is_grpc = is_grpc(request.headers());
        let answered = self.stage.call(request);
        let (_, respond) = self.below.next_request().await.unwrap();
        let mut response = Response::new("body");
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        if let Some(code) = code {
            let name = HeaderName::from_static("grpc-status");
            let code = HeaderValue::from_static(code);
            response.headers_mut().insert(name, code);
        }
        let mut response = ResponseBody::full(response);
        if let Some(classes) = &self.classes {
            let class = classes.find(response.status());
            response.body_mut().belongs_to(class);
        }
        if is_grpc {
            response.body_mut().answers_grpc();
        }
        respond.send_response(Ok(response));
        let response = answered.await.unwrap();
        response.into_body().collect().await.unwrap();
    }

    async fn fail(&mut self, request: HttpRequest, error: Error) {
        let answered = self.stage.call(request);
        let (_, respond) = self.below.next_request().await.unwrap();
        respond.send_response(Err(error));
        assert!(answered.await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn requests_count_at_once_latency_at_the_first_frame_and_responses_at_their_end() {
    let mut route = Route::new(None);
    let labels = [r#"direction="outbound",dst="web.test:80",rt_route="books""#];
    let answered = route.stage.call(request(""));
    assert_eq!(route.metrics.sum("route_request_total", &labels), 1.0);
    let (_, respond) = route.below.next_request().await.unwrap();
    tokio::time::advance(Duration::from_millis(20)).await;
    respond.send_response(Ok(response("welcome")));
    let mut response = answered.await.unwrap();
    tokio::time::advance(Duration::from_millis(10)).await;
    response.body_mut().frame().await.unwrap().unwrap();
    let latency = [labels[0], r#"status_code="200""#];
    let sum = "route_response_latency_ms_sum";
    assert_eq!(route.metrics.sum(sum, &latency), 30.0);
    drop(response);
    let success = [
        labels[0],
        r#"status_code="200",classification="success",grpc_status="",error="""#,
    ];
    assert_eq!(route.metrics.sum(RESPONSES, &success), 1.0);
}

#[tokio::test]
async fn responses_are_classified_by_the_route_then_by_their_code_then_by_their_status() {
    let with = || Some(classes());
    for (classes, request, status, code, expected) in [
        (None, request(""), 404, None, ("success", "")),
        (None, request(""), 502, None, ("failure", "")),
        (None, grpc_request(), 200, Some("13"), ("failure", "13")),
        (None, grpc_request(), 200, Some("5"), ("success", "5")),
        (None, grpc_request(), 200, None, ("success", "2")),
        (with(), request(""), 404, None, ("failure", "")),
        (with(), request(""), 502, None, ("success", "")),
        (with(), request(""), 503, None, ("failure", "")),
        (with(), request(""), 200, None, ("success", "")),
        (with(), grpc_request(), 200, Some("13"), ("failure", "13")),
        (with(), grpc_request(), 404, Some("0"), ("failure", "")),
        (with(), grpc_request(), 503, Some("0"), ("success", "0")),
        (with(), grpc_request(), 200, None, ("success", "")),
    ] {
        let case = format!("{classes:?} {status} {code:?}");
        let mut route = Route::new(classes);
        route.answer(request, status, code).await;
        let (classification, grpc) = expected;
        let labels = format!(
            r#"status_code="{status}",classification="{classification}",grpc_status="{grpc}",error="""#
        );
        assert_eq!(route.metrics.sum(RESPONSES, &[&labels]), 1.0, "{case}");
    }
}

#[tokio::test]
async fn failures_count_as_the_answer_for_an_endpoint_or_by_their_cause() {
    let reset = || Error::new(Reason::StreamReset).reset(h2::Reason::CANCEL);
    let failfast = || Reason::Failfast(Unavailable::NoEndpoints).into();
    let status = |code, class| format!(r#"status_code="{code}",classification="{class}""#);
    let error = |text| {
        format!(r#"rt_route="books",classification="failure",grpc_status="",error="{text}""#)
    };
    for (classes, request, failure, expected) in [
        (
            None,
            request(""),
            Reason::ProfileTimeout.into(),
            error("timeout"),
        ),
        (None, request(""), reset(), error("h2(CANCEL)")),
        (None, request(""), failfast(), error("unclassified")),
        (
            None,
            request(""),
            Reason::ConnectRefused.into(),
            status(502, "failure"),
        ),
        (
            Some(classes()),
            request(""),
            Reason::ConnectRefused.into(),
            status(502, "success"),
        ),
        (
            None,
            grpc_request(),
            Reason::ConnectRefused.into(),
            status(200, "failure"),
        ),
        (
            Some(classes()),
            grpc_request(),
            Reason::ConnectRefused.into(),
            status(200, "failure"),
        ),
    ] {
        let case = format!("{classes:?} {failure:?}");
        let mut route = Route::new(classes);
        route.fail(request, failure).await;
        assert_eq!(route.metrics.sum(RESPONSES, &[&expected]), 1.0, "{case}");
    }
}

#[tokio::test]
async fn attempts_are_counted_apart_and_without_their_latency() {
    let metrics = TestMetrics::new();
    let labels = linkerd_proxy_core::metrics::Labels::new().into();
    let families = &metrics.families.profile_route;
    let observer = ProfileRouteMetrics::of_attempts(families, &labels, None);
    let (mock, mut below) = Stage::new();
    let mut stage = ObserveLayer::new(observer).layer(mock);
    let answered = stage.call(request(""));
    let (_, respond) = below.next_request().await.unwrap();
    respond.send_response(Ok(response("")));
    drop(answered.await.unwrap());
    assert_eq!(metrics.sum("route_actual_request_total", &[]), 1.0);
    assert_eq!(metrics.sum("route_actual_response_total", &[]), 1.0);
    assert_eq!(metrics.sum("route_request_total", &[]), 0.0);
    assert_eq!(metrics.sum(RESPONSES, &[]), 0.0);
    assert_eq!(metrics.sum("route_response_latency_ms_count", &[]), 0.0);
}

#[tokio::test]
async fn is_ready_when_the_stage_below_is() {
    let Route {
        stage, mut below, ..
    } = Route::new(None);
    assert_readiness_passes(stage, &mut below);
}
