use super::*;
use crate::testing::{BelowStage, MockStage, assert_readiness_passes, request, response};
use http_body_util::BodyExt;

type Stage = MockStage<HttpRequest, Response<ResponseBody>, Error>;
type Below = BelowStage<HttpRequest, Response<ResponseBody>, Error>;

const SEC: Duration = Duration::from_secs(1);

fn stage(timeouts: Timeouts) -> (TimedRoute<Stage>, Below) {
    let (mock, below) = Stage::new();
    (TimeoutsLayer(timeouts).layer(mock), below)
}

fn request_limit(limit: Duration) -> Timeouts {
    Timeouts {
        request: Some(limit),
        ..Timeouts::default()
    }
}

fn response_limit(limit: Duration) -> Timeouts {
    Timeouts {
        response: Some(limit),
        ..Timeouts::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_that_does_not_come_is_given_up_at_the_first_limit() {
    for (timeouts, expected) in [
        (request_limit(SEC), Reason::RequestTimeout),
        (response_limit(SEC), Reason::ResponseTimeout),
        (
            Timeouts {
                response: Some(2 * SEC),
                ..request_limit(SEC)
            },
            Reason::RequestTimeout,
        ),
    ] {
        let (mut stage, mut below) = stage(timeouts);
        let start = Instant::now();
        let answered = stage.call(request(""));
        let _request = below.next_request().await.unwrap();
        let error = answered.await.unwrap_err();
        assert_eq!((error.reason(), start.elapsed()), (expected, SEC));
    }
}

#[tokio::test(start_paused = true)]
async fn the_request_limit_runs_from_its_arrival() {
    let (mut stage, _below) = stage(request_limit(3 * SEC));
    let waiting = request("");
    tokio::time::sleep(SEC).await;
    let start = Instant::now();
    let error = stage.call(waiting).await.unwrap_err();
    assert_eq!(error.reason(), Reason::RequestTimeout);
    assert_eq!(start.elapsed(), 2 * SEC);
}

#[tokio::test(start_paused = true)]
async fn a_response_in_time_passes_and_its_body_has_the_rest_of_the_limit() {
    let (mut stage, mut below) = stage(response_limit(3 * SEC));
    let answered = stage.call(request(""));
    let (_, respond) = below.next_request().await.unwrap();
    tokio::time::sleep(SEC).await;
    respond.send_response(Ok(response("welcome")));
    let response = answered.await.unwrap();
    let body = response.into_body().collect().await.unwrap();
    assert_eq!(body.to_bytes(), "welcome");
}

#[tokio::test]
async fn is_ready_when_the_stage_below_is() {
    let (stage, mut below) = stage(Timeouts::default());
    assert_readiness_passes(stage, &mut below);
}
