//! The layer over a mock of the stages below, and the events that taps see.

use super::*;
use crate::{
    observers::{Observers, ObserversStage},
    testing::{BelowStage, MockStage, assert_readiness_passes, client, request, response},
};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::BodyExt;
use linkerd_proxy_core::{
    Error, Reason,
    http::{HttpRequest, ResponseBody},
    metrics::Labels,
    transport::Side,
};
use registry::OpenTap;
use std::{net::SocketAddr, time::Duration};
use tokio::{task::LocalSet, time::Instant};
use tower_layer::Layer;
use tower_service::Service;

type Stage = MockStage<HttpRequest, Response<ResponseBody>, Error>;
type Below = BelowStage<HttpRequest, Response<ResponseBody>, Error>;

/// A worker with the layer, and the stage below.
struct TestWorker {
    registry: TapRegistry,
    stage: ObserversStage<Stage>,
    below: Below,
}

impl TestWorker {
    fn new(side: Side) -> Self {
        let registry = TapRegistry::new(false);
        let observers = Observers {
            taps: WorkerTaps::follow(&registry),
            ..Observers::none()
        };
        let (mock, below) = Stage::new();
        Self {
            stage: observers.layer(side, &client()).layer(mock),
            registry,
            below,
        }
    }

    /// Opens a tap, which the worker knows when this returns.
    async fn tap(&self, query: &str) -> OpenTap {
        let fields = TapFields::of_parameters(query).unwrap();
        let tap = self.registry.open(fields.check("test".to_owned()).unwrap());
        tokio::task::yield_now().await;
        tap.unwrap()
    }

    /// Sends a request to an endpoint, which answers after a second.
    async fn exchange(&mut self, answer: Result<Response<ResponseBody>, Error>) {
        let answered = self.stage.call(request(""));
        let (request, respond) = self.below.next_request().await.unwrap();
        note(&request);
        tokio::time::advance(Duration::from_secs(1)).await;
        respond.send_response(answer);
        if let Ok(response) = answered.await {
            tokio::time::advance(Duration::from_secs(2)).await;
            let _ = response.into_body().collect().await;
        }
    }
}

/// Notes an endpoint as the stages below do.
fn note(request: &HttpRequest) {
    if let Some(notes) = &request.context().notes {
        notes.send_to(SocketAddr::from(([10, 1, 0, 1], 8080)), Instant::now());
        let labels = Labels::new().with("tls", "true").with("dst_pod", "web-1");
        notes.of_endpoint_labels(&labels.into());
        notes.of_route(&"orders".into());
    }
}

async fn next(tap: &mut OpenTap) -> serde_json::Value {
    let event = tap.next().await.unwrap();
    serde_json::from_str(&event_line(tap.tap().id, &event)).unwrap()
}

fn ok() -> Result<Response<ResponseBody>, Error> {
    Ok(response("hello"))
}

/// Runs a test as on a worker.
fn on_worker(test: impl AsyncFnOnce()) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, test());
}

#[test]
fn readiness_is_that_of_the_stage_below() {
    on_worker(async || {
        let mut worker = TestWorker::new(Side::Outbound);
        assert_readiness_passes(worker.stage, &mut worker.below);
    });
}

#[test]
fn without_a_tap_a_request_has_no_notes() {
    on_worker(async || {
        let mut worker = TestWorker::new(Side::Outbound);
        let answered = worker.stage.call(request(""));
        let (request, respond) = worker.below.next_request().await.unwrap();
        assert!(request.context().notes.is_none());
        respond.send_response(ok());
        answered.await.unwrap();
    });
}

#[test]
fn a_tap_sees_a_request_from_its_endpoint_to_its_end() {
    on_worker(async || {
        let mut worker = TestWorker::new(Side::Outbound);
        let mut tap = worker.tap("method=POST&to=:8080").await;
        worker.exchange(ok()).await;

        let request = next(&mut tap).await;
        assert_eq!(request["event"], "request");
        assert_eq!(request["id"], "0:0");
        assert_eq!(request["method"], "POST");
        assert_eq!(request["authority"], "test.example");
        assert_eq!(request["source"], "10.0.0.7:40000");
        assert_eq!(request["source_labels"]["tls"], "loopback");
        assert_eq!(request["destination"], "10.1.0.1:8080");
        assert_eq!(request["destination_labels"]["pod"], "web-1");
        assert_eq!(request["route"], "orders");
        assert_eq!(request["headers"], serde_json::Value::Null);

        let response = next(&mut tap).await;
        assert_eq!(response["event"], "response");
        assert_eq!(response["status"], 200);
        assert_eq!(response["since_request_ms"], 1000.0);

        let end = next(&mut tap).await;
        assert_eq!(end["event"], "end");
        assert_eq!(end["status"], 200);
        assert_eq!(end["since_request_ms"], 3000.0);
        assert_eq!(end["since_response_ms"], 2000.0);
        assert_eq!(end["response_bytes"], 5);
        assert_eq!(end["reason"], serde_json::Value::Null);
    });
}

#[test]
fn headers_are_shown_to_those_who_ask_and_without_secrets() {
    on_worker(async || {
        let mut worker = TestWorker::new(Side::Outbound);
        let mut with = worker.tap("headers=true").await;
        let mut without = worker.tap("").await;
        let mut answer = response("");
        let cookie = HeaderValue::from_static("session=hidden");
        answer.headers_mut().insert("set-cookie", cookie);
        worker.exchange(Ok(answer)).await;
        let request = next(&mut with).await;
        assert_eq!(request["headers"][0][0], "host");
        assert_eq!(request["headers"][0][1], "test.example");
        let response = next(&mut with).await;
        assert_eq!(response["headers"][0][1], "[redacted]");
        assert!(next(&mut without).await.get("headers").is_none());
    });
}

#[test]
fn a_failure_of_the_proxy_has_its_reason() {
    on_worker(async || {
        let mut worker = TestWorker::new(Side::Inbound);
        let mut tap = worker.tap("").await;
        let answered = worker.stage.call(request(""));
        let (_, respond) = worker.below.next_request().await.unwrap();
        respond.send_response(Err(Error::new(Reason::Unauthorized)));
        answered.await.unwrap_err();
        let request = next(&mut tap).await;
        assert_eq!(request["destination"], serde_json::Value::Null);
        assert_eq!(next(&mut tap).await["status"], 403);
        let end = next(&mut tap).await;
        assert_eq!(end["event"], "end");
        assert_eq!(end["reason"], Reason::Unauthorized.label());
    });
}

#[test]
fn a_client_that_gives_up_is_told() {
    on_worker(async || {
        let mut worker = TestWorker::new(Side::Outbound);
        let mut tap = worker.tap("").await;
        drop(worker.stage.call(request("")));
        drop(worker.below.next_request().await.unwrap());
        assert_eq!(next(&mut tap).await["event"], "request");
        let end = next(&mut tap).await;
        assert_eq!(
            (&end["event"], &end["cancelled"]),
            (&"end".into(), &true.into())
        );

        let answered = worker.stage.call(request(""));
        let (_, respond) = worker.below.next_request().await.unwrap();
        respond.send_response(ok());
        drop(answered.await.unwrap());
        for event in ["request", "response"] {
            assert_eq!(next(&mut tap).await["event"], event);
        }
        assert_eq!(next(&mut tap).await["cancelled"], true);
    });
}

#[test]
fn requests_that_do_not_match_are_not_shown() {
    on_worker(async || {
        let mut worker = TestWorker::new(Side::Outbound);
        let mut other = worker.tap("to=:81").await;
        let mut get = worker.tap("method=GET").await;
        let mut all = worker.tap("").await;
        worker.exchange(ok()).await;
        worker.registry.end();
        assert_eq!(other.next().await.unwrap_err(), TapEnd::Shutdown);
        assert_eq!(get.next().await.unwrap_err(), TapEnd::Shutdown);
        for _ in 0..3 {
            all.next().await.unwrap();
        }
        assert_eq!(all.next().await.unwrap_err(), TapEnd::Shutdown);
        assert_eq!(all.next().await.unwrap_err(), TapEnd::Shutdown, "again");
        let settings = TapFields::default().check(String::new()).unwrap();
        let refused = worker.registry.open(settings).unwrap_err();
        assert_eq!(refused, TapRefused::Shutdown);
    });
}

#[test]
fn a_tap_ends_with_the_last_of_its_requests() {
    on_worker(async || {
        let mut worker = TestWorker::new(Side::Outbound);
        let mut tap = worker.tap("limit=2").await;
        for _ in 0..4 {
            worker.exchange(ok()).await;
        }
        let mut ids = Vec::new();
        for _ in 0..6 {
            ids.push(next(&mut tap).await["id"].as_str().unwrap().to_owned());
        }
        assert_eq!(ids, ["0:0", "0:0", "0:0", "0:1", "0:1", "0:1"]);
        assert_eq!(tap.next().await.unwrap_err(), TapEnd::Limit);
    });
}

#[test]
fn requests_beyond_the_rate_are_skipped_and_counted() {
    on_worker(async || {
        let mut worker = TestWorker::new(Side::Outbound);
        let tap = worker.tap("max_rps=1").await;
        for _ in 0..3 {
            let answered = worker.stage.call(request(""));
            let (request, respond) = worker.below.next_request().await.unwrap();
            note(&request);
            respond.send_response(ok());
            answered.await.unwrap();
        }
        assert_eq!(tap.tap().skipped(), 2);
        assert_eq!(tap.tap().inspect()["requests"], 1);
    });
}

#[test]
fn events_that_nobody_reads_are_dropped_and_counted() {
    on_worker(async || {
        let mut worker = TestWorker::new(Side::Outbound);
        let mut tap = worker.tap("limit=1000&max_rps=1000000").await;
        for _ in 0..1000 {
            worker.exchange(ok()).await;
        }
        assert_eq!(tap.tap().dropped(), 3000 - active::MAX_EVENTS as u64);
        assert_eq!(worker.registry.inspect()["dropped"], 2600);
        for _ in 0..active::MAX_EVENTS {
            tap.next().await.unwrap();
        }
        assert_eq!(tap.tap().inspect()["queued_bytes"], 0);
        assert_eq!(
            tap.next().await.unwrap_err(),
            TapEnd::Limit,
            "although ends were dropped"
        );
    });
}

#[test]
fn large_events_fill_the_queue_by_their_bytes() {
    on_worker(async || {
        let mut worker = TestWorker::new(Side::Outbound);
        let tap = worker.tap("headers=true").await;
        for _ in 0..100 {
            let mut large = request("");
            for _ in 0..100 {
                let value = HeaderValue::from_bytes(&[b'a'; 2000]).unwrap();
                large.headers_mut().append("x-large", value);
            }
            let answered = worker.stage.call(large);
            let (_, respond) = worker.below.next_request().await.unwrap();
            respond.send_response(ok());
            answered.await.unwrap();
        }
        let state = tap.tap().inspect();
        assert!(state["queued_bytes"].as_u64().unwrap() <= active::MAX_QUEUED_BYTES as u64);
        assert!(state["dropped"].as_u64().unwrap() > 0, "{state}");
    });
}

#[test]
fn taps_are_bounded_and_leave_with_their_clients() {
    on_worker(async || {
        let worker = TestWorker::new(Side::Outbound);
        let mut taps = Vec::new();
        for _ in 0..registry::MAX_TAPS {
            taps.push(worker.tap("").await);
        }
        let settings = || TapFields::default().check(String::new()).unwrap();
        let oldest = taps[0].tap().id;
        let newest = worker.registry.open(settings()).unwrap();
        let state = worker.registry.inspect();
        let open = state["open"].as_array().unwrap();
        assert_eq!(open.len(), registry::MAX_TAPS);
        assert!(open.iter().all(|tap| tap["id"] != oldest), "{state}");
        drop(newest);
        drop(taps);
        let open = worker.registry.inspect()["open"].as_array().unwrap().len();
        assert_eq!(open, 0);
        tokio::task::yield_now().await;
        let mut worker = worker;
        let answered = worker.stage.call(request(""));
        let (request, _respond) = worker.below.next_request().await.unwrap();
        assert!(request.context().notes.is_none());
        drop(answered);
    });
}

#[test]
fn a_grpc_failure_has_its_code() {
    on_worker(async || {
        let mut worker = TestWorker::new(Side::Outbound);
        let mut tap = worker.tap("").await;
        let answered = worker.stage.call(crate::testing::grpc_request());
        let (_, respond) = worker.below.next_request().await.unwrap();
        let error = Error::new(Reason::ConnectRefused);
        let code = error.grpc_code();
        respond.send_response(Err(error));
        answered.await.unwrap_err();
        next(&mut tap).await;
        assert_eq!(next(&mut tap).await["status"], StatusCode::OK.as_u16());
        assert_eq!(next(&mut tap).await["grpc_status"], code);
    });
}
