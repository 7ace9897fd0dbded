use super::*;
use crate::metrics::PolicyRetries;
use crate::outbound::retry_budgets::BUDGET;
use crate::testing::{
    BelowStage, MockStage, TestMetrics, assert_readiness_passes, request, response,
};
use http::StatusCode;
use http_body_util::BodyExt;
use linkerd_profiles::{RetryBudget, RetryBudgetSettings, RetryConditions, RetryPolicy};
use linkerd_proxy_core::{Backoff, Unavailable, metrics::Labels, stack::RcService};
use rand::SeedableRng;
use std::cell::Cell;
use tokio::time::timeout;
use tower::service_fn;

type Stage = MockStage<HttpRequest, Response<ResponseBody>, Error>;
type Below = BelowStage<HttpRequest, Response<ResponseBody>, Error>;

const SEC: Duration = Duration::from_secs(1);

fn policy() -> RetryPolicy {
    RetryPolicy {
        max_retries: 2,
        max_request_bytes: 10,
        conditions: RetryConditions {
            statuses: vec![500..=599],
            grpc_codes: Vec::new(),
        },
        timeout: None,
        backoff: None,
    }
}

fn stage(policy: RetryPolicy) -> (TestMetrics, Retry<Stage>, Below) {
    let metrics = TestMetrics::new();
    let (mock, below) = Stage::new();
    let stage = layer(&metrics, policy).layer(mock);
    (metrics, stage, below)
}

fn layer(metrics: &TestMetrics, policy: RetryPolicy) -> RetryLayer {
    let timeouts = Timeouts {
        request: Some(60 * SEC),
        ..Timeouts::default()
    };
    limited_layer(metrics, policy, timeouts, BUDGET)
}

fn limited_layer(
    metrics: &TestMetrics,
    policy: RetryPolicy,
    timeouts: Timeouts,
    budget: RetryBudgetSettings,
) -> RetryLayer {
    let families = &metrics.families.outbound.http.retries;
    let counts = PolicyRetries::new(families, Labels::new().into());
    let budget = Rc::new(RefCell::new(RetryBudget::new(budget, Instant::now())));
    let rng = SmallRng::seed_from_u64(1);
    let route = Rc::new(RouteRetries::new(counts, &budget, rng));
    let rules = Rc::new(RetryRules::from(&policy));
    RetryLayer::new(rules, timeouts, &route)
}

fn status(code: u16) -> Response<ResponseBody> {
    let mut response = response("");
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    response
}

fn counted(metrics: &TestMetrics, name: &str) -> f64 {
    metrics.sum(&format!("outbound_http_route_retry_{name}_total"), &[])
}

#[tokio::test(start_paused = true)]
async fn a_body_is_given_to_each_attempt_and_each_arrives_anew() {
    let (metrics, mut stage, mut below) = stage(policy());
    let start = Instant::now();
    let answered = stage.call(request("hello"));
    let answers = async {
        for (n, code) in [500, 503, 200].into_iter().enumerate() {
            let (request, respond) = below.next_request().await.unwrap();
            let (request, context) = request.into_parts();
            assert_eq!(context.arrived, start + SEC * n as u32);
            assert_eq!(request.headers()["host"], "test.example");
            let body = request.into_body().collect().await.unwrap();
            assert_eq!(body.to_bytes(), "hello");
            tokio::time::advance(SEC).await;
            respond.send_response(Ok(status(code)));
        }
    };
    let (answered, ()) = tokio::join!(answered, answers);
    assert_eq!(answered.unwrap().status(), 200);
    assert_eq!(
        (
            counted(&metrics, "requests"),
            counted(&metrics, "successes")
        ),
        (2.0, 1.0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_no_backend_takes_leaves_the_last_answer() {
    let calls = Cell::new(0);
    let refuses_the_second = service_fn(move |_: HttpRequest| {
        calls.set(calls.get() + 1);
        std::future::ready(match calls.get() {
            1 => Ok(status(500)),
            _ => Err(Reason::Unavailable(Unavailable::Unreachable).into()),
        })
    });
    let metrics = TestMetrics::new();
    let mut stage = layer(&metrics, policy()).layer(RcService::new(refuses_the_second));
    assert_eq!(stage.call(request("")).await.unwrap().status(), 500);
    assert_eq!(counted(&metrics, "overflow"), 1.0);
    assert_eq!(counted(&metrics, "requests"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_given_up_makes_no_further_attempt() {
    let pause = Backoff::new(SEC, SEC, 0.0).unwrap();
    let (_metrics, mut stage, mut below) = stage(RetryPolicy {
        backoff: Some(pause),
        ..policy()
    });
    let mut answered = tokio_test::task::spawn(stage.call(request("")));
    assert!(answered.poll().is_pending());
    let (_, respond) = below.next_request().await.unwrap();
    respond.send_response(Ok(status(500)));
    assert!(
        answered.is_woken() && answered.poll().is_pending(),
        "it pauses"
    );
    drop(answered);
    assert!(timeout(5 * SEC, below.next_request()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn an_attempt_without_headers_in_time_is_given_up_but_for_the_last() {
    let (metrics, mut stage, mut below) = stage(RetryPolicy {
        timeout: Some(SEC),
        ..policy()
    });
    let start = Instant::now();
    let answered = stage.call(request(""));
    let answers = async {
        let _first = below.next_request().await.unwrap();
        let _second = below.next_request().await.unwrap();
        let (_, respond) = below.next_request().await.unwrap();
        tokio::time::sleep(5 * SEC).await;
        respond.send_response(Ok(status(200)));
    };
    let (answered, ()) = tokio::join!(answered, answers);
    assert_eq!(answered.unwrap().status(), 200);
    assert_eq!(start.elapsed(), 7 * SEC);
    assert_eq!(counted(&metrics, "successes"), 1.0);
}

#[tokio::test(start_paused = true)]
async fn a_late_attempt_goes_on_without_its_limit_when_no_other_one_can_be_made() {
    const NONE: RetryBudgetSettings = RetryBudgetSettings {
        ratio: 0.0,
        min_retries_per_second: 0,
        ttl: Duration::from_secs(10),
    };
    let limited = Timeouts {
        request: Some(5 * SEC),
        ..Timeouts::default()
    };
    let minute = Backoff::new(60 * SEC, 60 * SEC, 0.0).unwrap();
    for (budget, timeouts, backoff, reason, answer) in [
        (NONE, Timeouts::default(), None, "budget", 200),
        (NONE, Timeouts::default(), None, "budget", 503),
        (NONE, Timeouts::default(), None, "budget", 404),
        (BUDGET, limited, Some(minute), "deadline", 200),
    ] {
        let metrics = TestMetrics::new();
        let (mock, mut below) = Stage::new();
        let policy = RetryPolicy {
            timeout: Some(SEC),
            backoff,
            ..policy()
        };
        let mut stage = limited_layer(&metrics, policy, timeouts, budget).layer(mock);
        let start = Instant::now();
        let answered = stage.call(request(""));
        let answers = async {
            let (_, respond) = below.next_request().await.unwrap();
            tokio::time::sleep(3 * SEC).await;
            respond.send_response(Ok(status(answer)));
        };
        let (answered, ()) = tokio::join!(answered, answers);
        assert_eq!(answered.unwrap().status(), answer, "{reason}");
        assert_eq!(start.elapsed(), 3 * SEC);
        let name = "outbound_http_route_retry_skipped_total";
        let label = format!("reason=\"{reason}\"");
        assert_eq!(metrics.sum(name, &[&label]), 1.0);
        assert_eq!(counted(&metrics, "skipped"), 1.0, "once for an attempt");
        assert_eq!(counted(&metrics, "requests"), 0.0);
    }
}

/// A stage whose responses are limited to 2 s, and the headers of their attempts to 4 s.
fn stage_of_two_limits(max_retries: u16) -> (Retry<Stage>, Below) {
    let (mock, below) = Stage::new();
    let policy = RetryPolicy {
        timeout: Some(4 * SEC),
        max_retries,
        ..policy()
    };
    let timeouts = Timeouts {
        response: Some(2 * SEC),
        ..Timeouts::default()
    };
    let layer = limited_layer(&TestMetrics::new(), policy, timeouts, BUDGET);
    (layer.layer(mock), below)
}

#[tokio::test(start_paused = true)]
async fn the_limit_for_the_headers_takes_the_place_of_the_responses() {
    let (mut stage, mut below) = stage_of_two_limits(1);
    let start = Instant::now();
    let answered = stage.call(request(""));
    let answers = async {
        let (_, respond) = below.next_request().await.unwrap();
        tokio::time::sleep(3 * SEC).await;
        respond.send_response(Ok(response("welcome")));
    };
    let (answered, ()) = tokio::join!(answered, answers);
    assert_eq!(start.elapsed(), 3 * SEC);
    // The body is there. If it were not, the limit of the response would end it.
    let body = answered.unwrap().into_body().collect().await.unwrap();
    assert_eq!(body.to_bytes(), "welcome");
}

#[tokio::test(start_paused = true)]
async fn the_last_attempt_waits_for_its_headers_as_long_as_the_response_may_take() {
    for (retries, expected) in [(0, 2 * SEC), (1, 6 * SEC)] {
        let (mut stage, mut below) = stage_of_two_limits(retries);
        let start = Instant::now();
        let answered = stage.call(request(""));
        let silent = async {
            let mut held = Vec::new();
            loop {
                held.push(below.next_request().await);
            }
        };
        let answered = tokio::select! {
            answered = answered => answered,
            never = silent => never,
        };
        let reason = answered.unwrap_err().reason();
        assert_eq!(
            (reason, start.elapsed()),
            (Reason::ResponseTimeout, expected)
        );
    }
}

#[tokio::test]
async fn is_ready_when_the_stage_below_is() {
    let (_metrics, stage, mut below) = stage(policy());
    assert_readiness_passes(stage, &mut below);
}

#[tokio::test(start_paused = true)]
async fn an_outage_adds_no_more_than_the_budget_and_says_why_the_rest_is_not_retried() {
    let (metrics, mut stage, mut below) = stage(policy());
    let serves = async {
        loop {
            let (_, respond) = below.next_request().await.unwrap();
            respond.send_response(Ok(status(503)));
        }
    };
    let asks = async {
        for _ in 0..1000 {
            assert_eq!(stage.call(request("")).await.unwrap().status(), 503);
        }
    };
    tokio::select! {
        () = asks => {}
        () = serves => {}
    }
    let reserve = f64::from(BUDGET.min_retries_per_second) * BUDGET.ttl.as_secs_f64();
    assert_eq!(counted(&metrics, "requests"), reserve);
    assert_eq!(counted(&metrics, "limit_exceeded"), reserve / 2.0);
    assert_eq!(counted(&metrics, "skipped"), 1000.0 - reserve / 2.0);
}
