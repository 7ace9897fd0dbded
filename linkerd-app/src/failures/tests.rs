use super::*;
use crate::testing::{TestMetrics, client, request};
use http::Request;
use linkerd_proxy_core::Reason;

const ADDR: &str = "10.0.0.1:80";

fn fail(failures: &RequestFailures, request: Request<()>, error: &Error) {
    let responder = Responder::new(&request, Side::Inbound, true);
    let head = RequestHead::of(&request);
    failures.request(Some(&head), &responder, error);
}

#[test]
fn a_failed_request_is_kept_with_its_reason_hint_and_trace() {
    let log = FailureLog::new(10, TestMetrics::new().families.failures);
    let request = Request::get("/pay?card=4111").header("host", "shop");
    let traced = request.header(
        "traceparent",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    );
    let error = Error::new(Reason::ConnectRefused)
        .context("endpoint 10.0.0.1:80")
        .peer(ADDR.parse().unwrap());
    let failures = log.requests(Side::Outbound, &client());
    fail(&failures, traced.body(()).unwrap(), &error);
    let state = log.inspect();
    let record = &state["last"][0];
    for (name, expected) in [
        ("direction", "outbound"),
        ("protocol", "http"),
        ("reason", "connect_refused"),
        ("hint", Reason::ConnectRefused.hint()),
        ("detail", "endpoint 10.0.0.1:80: connection refused"),
        ("destination", "shop"),
        ("path", "/pay"),
        ("endpoint", ADDR),
        ("trace_id", "0af7651916cd43dd8448eb211c80319c"),
    ] {
        assert_eq!(record[name], expected, "{name}");
    }
    assert_eq!(record["status"], 502);
    assert!(!state.to_string().contains("4111"), "{state}");
}

#[test]
fn the_ring_keeps_the_newest_and_counts_all() {
    let log = FailureLog::new(2, TestMetrics::new().families.failures);
    for port in 1..=3 {
        let error = Error::new(Reason::NoDestination);
        let destination = SocketAddr::from(([10, 0, 0, 1], port));
        log.connection(Side::Inbound, &client(), destination, &error);
    }
    let state = log.inspect();
    assert_eq!(state["total"], 3);
    let last = state["last"].as_array().unwrap().iter();
    let destinations: Vec<_> = last.map(|record| record["destination"].clone()).collect();
    assert_eq!(destinations, ["10.0.0.1:3", "10.0.0.1:2"]);
    assert!(state["last"][0]["status"].is_null());
    let id = state["last"][1]["id"].as_str().unwrap().to_owned();
    assert!(id.ends_with("-2"), "{id}");
    // A link to a failure leads to it while it is kept.
    log.connection(
        Side::Inbound,
        &client(),
        SocketAddr::from(([10, 0, 0, 1], 4)),
        &Error::new(Reason::NoDestination),
    );
    let later = log.inspect();
    assert_eq!(later["last"][1]["destination"], "10.0.0.1:3");
    assert!(
        later["last"][1]["id"].as_str().unwrap().ends_with("-3"),
        "{later}"
    );
}

#[test]
fn a_connection_that_ends_with_a_code_has_no_answer() {
    let log = FailureLog::new(1, TestMetrics::new().families.failures);
    let error = Error::new(Reason::MalformedRequest).reset(h2::Reason::PROTOCOL_ERROR);
    log.connection(Side::Outbound, &client(), ADDR.parse().unwrap(), &error);
    let record = &log.inspect()["last"][0];
    assert_eq!(record["reset"], false);
    assert!(record["status"].is_null());
}

#[test]
fn long_and_hostile_texts_are_bounded_data() {
    let log = FailureLog::new(10, TestMetrics::new().families.failures);
    let path = format!("/%3Cscript%3E\"{}", "a".repeat(5_000));
    let request = Request::get(path).header("host", "<img src=x>");
    let request = request.header("traceparent", "00-nonsense-01");
    let failures = log.requests(Side::Inbound, &client());
    fail(
        &failures,
        request.body(()).unwrap(),
        &Reason::NoRoute.into(),
    );
    let state = log.inspect();
    let record = &state["last"][0];
    assert_eq!(record["destination"], "<img src=x>");
    assert!(record["path"].as_str().unwrap().len() <= MAX_TEXT + '…'.len_utf8());
    assert!(record["trace_id"].is_null());
}

#[test]
fn failures_of_workers_are_in_the_order_of_time() {
    let worker = |times: &[u64]| {
        let last: Vec<_> = times
            .iter()
            .map(|time| json!({ "time_ms": time }))
            .collect();
        json!({ "total": times.len(), "limit": 5, "last": last })
    };
    let merged = merge(vec![worker(&[9, 3]), Value::Null, worker(&[7])]);
    assert_eq!(
        (&merged["total"], &merged["limit"]),
        (&json!(3), &json!(10))
    );
    let times = merged["last"].as_array().unwrap().iter();
    let times: Vec<_> = times.map(|record| record["time_ms"].as_u64()).collect();
    assert_eq!(times, [Some(9), Some(7), Some(3)]);
}

#[test]
fn heads_are_kept_of_the_first_requests_and_after_a_failure() {
    let log = FailureLog::new(10, TestMetrics::new().families.failures);
    let failures = log.requests(Side::Outbound, &client());
    let is_kept = || failures.head(&request("")).is_some();
    assert!((0..FIRST_HEADS).all(|_| is_kept()));
    assert!(!is_kept());
    fail(&failures, Request::new(()), &Reason::NoRoute.into());
    assert!(is_kept());
}
