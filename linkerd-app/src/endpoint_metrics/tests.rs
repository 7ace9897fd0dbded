use super::*;
use crate::testing::{
    BelowStage, MockStage, TestMetrics, assert_readiness_passes, grpc_request, request, response,
};
use http::{HeaderValue, header::HeaderName};
use http_body_util::BodyExt;
use linkerd_proxy_core::{Reason, metrics::Labels};

type Stage = MockStage<HttpRequest, Response<ResponseBody>, Rejected<HttpRequest>>;
type Below = BelowStage<HttpRequest, Response<ResponseBody>, Rejected<HttpRequest>>;

const ENDPOINT: &str = "10.0.0.1:80";

fn stage() -> (TestMetrics, EndpointMetrics<Stage>, Below) {
    let metrics = TestMetrics::new();
    let labels = Labels::new().with("direction", "outbound");
    let addr = ENDPOINT.parse().unwrap();
    let layer = EndpointMetricsLayer::new(&metrics.families.endpoint, labels.into(), addr);
    let (mock, below) = Stage::new();
    (metrics, layer.layer(mock), below)
}

#[tokio::test(start_paused = true)]
async fn latency_is_that_of_the_first_frame_and_the_response_counts_at_its_end() {
    let (metrics, mut stage, mut below) = stage();
    let answered = stage.call(request(""));
    assert_eq!(metrics.sum("request_total", &[]), 1.0);
    let (_, respond) = below.next_request().await.unwrap();
    tokio::time::advance(Duration::from_millis(20)).await;
    respond.send_response(Ok(response("welcome")));
    let mut response = answered.await.unwrap();
    tokio::time::advance(Duration::from_millis(10)).await;
    response.body_mut().frame().await.unwrap().unwrap();
    assert_eq!(metrics.sum("response_latency_ms_sum", &[]), 30.0);
    drop(response);
    let success = ["status_code=\"200\"", "classification=\"success\""];
    assert_eq!(metrics.sum("response_total", &success), 1.0);
    assert_eq!(metrics.sum("response_latency_ms_count", &[]), 1.0);
}

#[tokio::test]
async fn server_errors_and_grpc_codes_are_failures() {
    let grpc_status = HeaderName::from_static("grpc-status");
    for (request, status, code, labels) in [
        (
            request(""),
            503,
            None,
            ["status_code=\"503\"", "error=\"\""],
        ),
        (
            grpc_request(),
            200,
            Some("13"),
            ["status_code=\"200\"", "grpc_status=\"13\""],
        ),
    ] {
        let (metrics, mut stage, mut below) = stage();
        let answered = stage.call(request);
        let (_, respond) = below.next_request().await.unwrap();
        let mut answer = response("");
        *answer.status_mut() = StatusCode::from_u16(status).unwrap();
        if let Some(code) = code {
            let code = HeaderValue::from_static(code);
            answer.headers_mut().insert(grpc_status.clone(), code);
        }
        let (head, _) = answer.into_parts();
        respond.send_response(Ok(ResponseBody::full(Response::from_parts(head, ""))));
        drop(answered.await.unwrap());
        assert_eq!(metrics.sum("response_total", &labels), 1.0);
        assert_eq!(
            metrics.sum("response_total", &["classification=\"failure\""]),
            1.0
        );
    }
}

#[tokio::test]
async fn a_failure_is_counted_as_the_proxy_answers_it_and_names_the_endpoint() {
    for (request, labels) in [
        (request(""), ["status_code=\"502\"", "grpc_status=\"\""]),
        (
            grpc_request(),
            ["status_code=\"200\"", "grpc_status=\"14\""],
        ),
    ] {
        let (metrics, mut stage, mut below) = stage();
        let answered = stage.call(request);
        let (_, respond) = below.next_request().await.unwrap();
        respond.send_response(Err(Rejected::lost(Reason::ConnectionLost)));
        let rejected = answered.await.unwrap_err();
        assert_eq!(rejected.error.peer_addr(), ENDPOINT.parse().ok());
        assert_eq!(metrics.sum("response_total", &labels), 1.0);
    }
}

#[tokio::test]
async fn a_reset_is_counted_by_its_code() {
    let (metrics, mut stage, mut below) = stage();
    let answered = stage.call(request(""));
    let (_, respond) = below.next_request().await.unwrap();
    let reset = Error::new(Reason::StreamReset).reset(h2::Reason::CANCEL);
    respond.send_response(Err(Rejected::lost(reset)));
    assert!(answered.await.is_err());
    let cancelled = ["error=\"h2(CANCEL)\"", "classification=\"failure\""];
    assert_eq!(metrics.sum("response_total", &cancelled), 1.0);
}

#[tokio::test]
async fn a_request_that_goes_elsewhere_counts_only_if_nobody_else_takes_it() {
    let (metrics, mut stage, mut below) = stage();
    let mut reject = async || {
        let answered = stage.call(request(""));
        let (request, respond) = below.next_request().await.unwrap();
        respond.send_response(Err(Rejected::returned(Reason::ConnectRefused, request)));
        answered.await.unwrap_err()
    };
    let moved = reject().await;
    let last = reject().await;
    drop(moved);
    assert_eq!(metrics.sum("response_total", &[]), 0.0);
    last.into_final();
    assert_eq!(metrics.sum("response_total", &["status_code=\"502\""]), 1.0);
    assert_eq!(metrics.sum("request_total", &[]), 2.0);
}

#[tokio::test]
async fn a_request_that_is_given_up_has_no_response() {
    let (metrics, mut stage, _below) = stage();
    drop(stage.call(request("")));
    assert_eq!(metrics.sum("request_total", &[]), 1.0);
    assert_eq!(metrics.sum("response_total", &[]), 0.0);
}

#[tokio::test]
async fn is_ready_when_the_stage_below_is() {
    let (_metrics, stage, mut below) = stage();
    assert_readiness_passes(stage, &mut below);
}
