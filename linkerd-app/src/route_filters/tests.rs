use super::*;
use crate::testing::{BelowStage, MockStage, assert_readiness_passes, request, response};
use http::{HeaderName, HeaderValue, StatusCode};
use linkerd_profiles::{Ratio, Redirect};
use rand::SeedableRng;

type Stage = MockStage<HttpRequest, Response<ResponseBody>, Error>;
type Below = BelowStage<HttpRequest, Response<ResponseBody>, Error>;

fn stage(filters: &[HttpFilter]) -> (Filters<Stage>, Below) {
    let (mock, below) = Stage::new();
    let layer = FiltersLayer::new(filters, SmallRng::seed_from_u64(0));
    (layer.layer(mock), below)
}

fn header(name: &'static str, value: &'static str) -> (HeaderName, HeaderValue) {
    (
        HeaderName::from_static(name),
        HeaderValue::from_static(value),
    )
}

fn changes() -> HeaderModifier {
    HeaderModifier {
        add: vec![header("x-add", "new"), header("x-set", "added")],
        set: vec![header("x-set", "set"), header("x-remove", "set")],
        remove: vec![HeaderName::from_static("x-remove")],
    }
}

/// `name=value` of all `x-` headers.
fn shown(headers: &HeaderMap) -> Vec<String> {
    let shown = headers
        .iter()
        .filter(|(name, _)| name.as_str().starts_with("x-"));
    let mut shown: Vec<_> = shown
        .map(|(name, value)| format!("{name}={}", value.to_str().unwrap()))
        .collect();
    shown.sort();
    shown
}

fn failing(failure: InjectedFailure, ratio: Ratio) -> HttpFilter {
    HttpFilter::InjectFailure(FailureInjector {
        failure,
        message: "on purpose".to_owned(),
        ratio,
    })
}

#[tokio::test]
async fn headers_are_added_then_set_then_removed_in_each_direction() {
    let filters = [
        HttpFilter::RequestHeaders(changes()),
        HttpFilter::ResponseHeaders(changes()),
    ];
    let (mut stage, mut below) = stage(&filters);
    let mut sent = request("");
    for (name, value) in [header("x-add", "old"), header("x-remove", "old")] {
        sent.headers_mut().insert(name, value);
    }
    let answered = stage.call(sent);
    let (received, respond) = below.next_request().await.unwrap();
    let expected = ["x-add=new", "x-add=old", "x-set=set"];
    assert_eq!(shown(received.headers()), expected);
    respond.send_response(Ok(response("")));
    let response = answered.await.unwrap();
    assert_eq!(shown(response.headers()), ["x-add=new", "x-set=set"]);
}

#[tokio::test]
async fn a_share_of_requests_fails_and_the_others_pass() {
    let status = InjectedFailure::Status(StatusCode::IM_A_TEAPOT);
    let (mut stage, mut below) = stage(&[failing(status, Ratio::new(1, 4).unwrap())]);
    let mut failed = 0;
    for _ in 0..1000 {
        let call = stage.call(request(""));
        match futures::FutureExt::now_or_never(call) {
            Some(Err(error)) => {
                assert_eq!(error.reason(), Reason::InjectedFailure);
                assert_eq!(error.status(), StatusCode::IM_A_TEAPOT);
                let mut error = error;
                error.add_context("route r");
                assert_eq!(error.to_string(), "on purpose", "its text alone");
                failed += 1;
            }
            Some(Ok(_)) => panic!("the endpoint did not answer"),
            None => drop(below.next_request().await.unwrap()),
        }
    }
    assert!((200..300).contains(&failed), "{failed}");
}

#[tokio::test]
async fn the_first_filter_that_answers_ends_it() {
    let redirect = HttpFilter::Redirect(Redirect {
        scheme: None,
        host: Some("other.test".to_owned()),
        port: None,
        path: None,
        status: StatusCode::FOUND,
    });
    let grpc = failing(InjectedFailure::Grpc(7), Ratio::ALL);
    for (filters, expected) in [
        ([redirect.clone(), grpc.clone()], Reason::Redirected),
        ([grpc, redirect], Reason::InjectedFailure),
    ] {
        let (mut stage, _below) = stage(&filters);
        let mut sent = request("");
        let host = HeaderValue::from_static("web.test");
        sent.headers_mut().insert(http::header::HOST, host);
        let error = stage.call(sent).await.unwrap_err();
        assert_eq!(error.reason(), expected);
        match expected {
            Reason::Redirected => {
                let location = error.location().unwrap();
                assert_eq!(location, "http://other.test/");
            }
            _ => assert_eq!(error.grpc_code(), 7),
        }
    }
}

#[tokio::test]
async fn is_ready_when_the_stage_below_is() {
    let (stage, mut below) = stage(&[]);
    assert_readiness_passes(stage, &mut below);
}
