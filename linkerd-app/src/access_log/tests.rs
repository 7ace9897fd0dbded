//! Lines of all forms, of exchanges with a mock of the stages below.

use super::*;
use crate::{
    config::AccessLogOutput,
    observers::{Observers, ObserversStage},
    testing::{BelowStage, MockStage, assert_readiness_passes, grpc_request, request, response},
};
use http::{HeaderName, HeaderValue, Method, Response, Version};
use http_body_util::BodyExt;
use linkerd_proxy_core::{
    Error, Reason, drain,
    http::{HttpRequest, ResponseBody},
    tls::{NoTlsReason, TlsStatus},
    transport::{ClientInfo, ListenerContext, Side},
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

type Stage = MockStage<HttpRequest, Response<ResponseBody>, Error>;
type Below = BelowStage<HttpRequest, Response<ResponseBody>, Error>;

/// A layer that logs to a file, and the stage below.
struct TestLog {
    dir: TempDir,
    log: AccessLog,
    stage: ObserversStage<Stage>,
    below: Below,
}

fn settings(format: AccessLogFormat) -> AccessLogConfig {
    AccessLogConfig {
        format,
        output: AccessLogOutput::Stderr,
        sample: 1.0,
        query: false,
        headers: vec![HeaderName::from_static("x-tenant")],
    }
}

fn client() -> Rc<ClientInfo> {
    Rc::new(ClientInfo {
        addr: ([10, 0, 0, 9], 40_000).into(),
        local: ([10, 0, 0, 1], 4143).into(),
        orig_dst: Some(([10, 0, 0, 1], 8080).into()),
        tls: TlsStatus::None(NoTlsReason::NoTlsFromRemote),
        listener: ListenerContext::new(drain::channel().1),
    })
}

impl TestLog {
    fn new(format: AccessLogFormat) -> Self {
        Self::with(settings(format), Side::Inbound)
    }

    fn with(config: AccessLogConfig, side: Side) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let output = AccessLogOutput::File(dir.path().join("log"));
        let log = AccessLog::start(&AccessLogConfig { output, ..config }, None).unwrap();
        let observers = Observers {
            access_log: Some(log.writer()),
            ..Observers::none()
        };
        let layer = observers.layer(side, &client());
        let (mock, below) = Stage::new();
        Self {
            dir,
            log,
            stage: layer.layer(mock),
            below,
        }
    }

    /// Sends a request, and answers it by `answer` when a second has passed.
    async fn exchange(
        &mut self,
        request: HttpRequest,
        answer: impl FnOnce(&HttpRequest) -> Result<Response<ResponseBody>, Error>,
    ) {
        let answered = self.stage.call(request);
        let (request, respond) = self.below.next_request().await.unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
        respond.send_response(answer(&request));
        if let Ok(response) = answered.await {
            let _ = response.into_body().collect().await;
        }
    }

    fn lines(&self) -> Vec<String> {
        self.log.flush();
        let text = std::fs::read_to_string(self.dir.path().join("log")).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    fn line(&self) -> String {
        let lines = self.lines();
        assert_eq!(lines.len(), 1, "{lines:?}");
        lines.into_iter().next().unwrap()
    }

    fn object(&self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }

    fn objects(&self) -> Vec<Value> {
        let object = |line: &String| serde_json::from_str(line).unwrap();
        self.lines().iter().map(object).collect()
    }
}

fn ask(uri: &str, headers: &[(&'static str, &str)]) -> HttpRequest {
    let mut request = request("");
    *request.method_mut() = Method::GET;
    *request.uri_mut() = uri.parse().unwrap();
    for (name, value) in headers {
        let value = HeaderValue::from_str(value).unwrap();
        request.headers_mut().insert(*name, value);
    }
    request
}

/// A line without its times, which are replaced by their names.
fn without_times(line: &str, start: &str, end: &str) -> String {
    let (before, rest) = line.split_once(start).unwrap();
    let (time, after) = rest.split_once(end).unwrap();
    assert!(time.ends_with('Z') && time.len() == 30, "{time}");
    format!("{before}{start}TIME{end}{after}")
}

#[tokio::test(start_paused = true)]
async fn the_apache_form_is_the_incumbents() {
    let mut log = TestLog::new(AccessLogFormat::Apache);
    log.exchange(ask("/ok?a=1", &[]), |_| Ok(response("hello")))
        .await;
    assert_eq!(
        without_times(&log.line(), "[", "]"),
        "10.0.0.9:40000 - - [TIME] \"GET /ok?a=1 HTTP/1.1\" 200"
    );
}

#[tokio::test(start_paused = true)]
async fn the_json_form_is_the_incumbents() {
    let mut log = TestLog::new(AccessLogFormat::Json);
    let asked = ask("/x", &[("user-agent", "curl"), ("x-request-id", "r7")]);
    log.exchange(asked, |_| Err(Reason::NoRoute.into())).await;
    let line = without_times(&log.line(), "\"timestamp\":\"", "\"");
    let line = line.replace("\"processing_ns\":\"0\",", "");
    assert_eq!(
        line,
        "{\"client.addr\":\"10.0.0.9:40000\",\"client.id\":\"-\",\"host\":\"test.example\",\
         \"method\":\"GET\",\"request_bytes\":\"\",\"response_bytes\":\"0\",\"status\":404,\
         \"timestamp\":\"TIME\",\"total_ns\":\"1000000000\",\"trace_id\":\"r7\",\"uri\":\"/x\",\
         \"user_agent\":\"curl\",\"version\":\"HTTP/1.1\"}"
    );
}

#[tokio::test(start_paused = true)]
async fn without_a_response_the_incumbents_forms_have_no_status_and_no_times() {
    for format in [AccessLogFormat::Apache, AccessLogFormat::Json] {
        let mut log = TestLog::new(format);
        drop(log.stage.call(ask("/x", &[])));
        let line = log.line();
        assert!(!line.contains("_ns") && !line.contains("status"), "{line}");
        assert!(
            line.ends_with("HTTP/1.1\"") || line.ends_with('}'),
            "{line}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_line_tells_the_whole_way_of_a_request() {
    let mut log = TestLog::new(AccessLogFormat::Full);
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let headers = [
        ("traceparent", trace),
        ("user-agent", "curl"),
        ("referer", "http://a/b?c"),
        ("x-tenant", "t"),
        ("authorization", "Bearer secret"),
    ];
    let asked = ask("/path?token=secret", &headers);
    log.exchange(asked, |request| {
        let notes = request.context().notes.as_ref().unwrap();
        notes.of_route(&"r".into());
        notes.of_backend(&"b".into());
        notes.send_to(([10, 0, 0, 2], 80).into(), Instant::now());
        notes.of_endpoint(&"web.shop".parse().unwrap());
        Ok(response("hello"))
    })
    .await;
    let line = log.line();
    assert!(!line.contains("secret"), "{line}");
    let object = log.object();
    for (name, value) in [
        ("direction", "inbound".into()),
        ("outcome", "success".into()),
        ("client", "10.0.0.9:40000".into()),
        ("server", "10.0.0.1:8080".into()),
        ("method", "GET".into()),
        ("authority", "test.example".into()),
        ("path", "/path".into()),
        ("version", "HTTP/1.1".into()),
        ("status", Value::from(200)),
        ("sent", 1.into()),
        ("returned", 0.into()),
        ("route", "r".into()),
        ("backend", "b".into()),
        ("endpoint", "10.0.0.2:80".into()),
        ("endpoint_identity", "web.shop".into()),
        ("request_bytes", 0.into()),
        ("response_bytes", 5.into()),
        ("wait_us", 1_000_000.into()),
        ("first_byte_us", 1_000_000.into()),
        ("duration_us", 1_000_000.into()),
        ("trace_id", "0af7651916cd43dd8448eb211c80319c".into()),
        ("user_agent", "curl".into()),
        ("referer", "http://a/b".into()),
        ("headers", serde_json::json!({"x-tenant": "t"})),
    ] {
        assert_eq!(object[name], value, "{name} in {line}");
    }
    assert_eq!(object["time"].as_str().unwrap().len(), 27);
    assert!(object.get("reason").is_none() && object.get("connect_us").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_failure_has_its_reason_and_a_grpc_one_its_code() {
    let mut log = TestLog::new(AccessLogFormat::Full);
    let refused = || Error::new(Reason::ConnectRefused).context("endpoint 10.0.0.2:80");
    log.exchange(grpc_request(), |_| Err(refused())).await;
    log.exchange(ask("/", &[]), |_| Err(refused())).await;
    let objects = log.objects();
    let [grpc, http] = &objects[..] else {
        panic!("{objects:?}")
    };
    assert_eq!(
        (&grpc["status"], &grpc["grpc_status"]),
        (&200.into(), &14.into())
    );
    assert_eq!(http["status"], 502);
    for object in &objects {
        assert_eq!(object["outcome"], "failure");
        assert_eq!(object["reason"], "connect_refused");
        assert_eq!(object["origin"], "endpoint");
        assert_eq!(object["phase"], "connect");
        assert_eq!(object["error"], "endpoint 10.0.0.2:80: connection refused");
        assert!(!object["hint"].as_str().unwrap().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_reset_has_no_status_on_http2() {
    let mut log = TestLog::new(AccessLogFormat::Full);
    let mut asked = ask("/", &[]);
    *asked.version_mut() = Version::HTTP_2;
    let reset = Error::from(Reason::StreamReset).reset(h2::Reason::CANCEL);
    log.exchange(asked, |_| Err(reset)).await;
    let object = log.object();
    assert_eq!(object["reason"], "stream_reset");
    assert!(object.get("status").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_gives_up_is_no_failure_and_is_logged_once() {
    let mut log = TestLog::new(AccessLogFormat::Full);
    drop(log.stage.call(ask("/early", &[])));
    let answered = log.stage.call(ask("/late", &[]));
    log.below.next_request().await.unwrap();
    let (_, respond) = log.below.next_request().await.unwrap();
    respond.send_response(Ok(response("never read")));
    drop(answered.await.unwrap());
    let objects = log.objects();
    assert_eq!(objects.len(), 2, "{objects:?}");
    for (object, path) in objects.iter().zip(["/early", "/late"]) {
        assert_eq!(
            (&object["path"], &object["outcome"]),
            (&path.into(), &"cancelled".into())
        );
    }
}

#[tokio::test(start_paused = true)]
async fn of_successes_only_the_share_is_logged_and_of_failures_all() {
    let config = AccessLogConfig {
        sample: 0.0,
        ..settings(AccessLogFormat::Full)
    };
    let mut log = TestLog::with(config, Side::Outbound);
    log.exchange(ask("/ok", &[]), |_| Ok(response("hello")))
        .await;
    log.exchange(ask("/failed", &[]), |_| {
        let mut answer = Response::new("oops");
        *answer.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
        Ok(ResponseBody::full(answer))
    })
    .await;
    log.exchange(ask("/refused", &[]), |_| Err(Reason::QueueFull.into()))
        .await;
    let objects = log.objects();
    let paths: Vec<_> = objects.iter().map(|object| &object["path"]).collect();
    assert_eq!(paths, ["/failed", "/refused"]);
}

#[tokio::test(start_paused = true)]
async fn bytes_are_those_of_the_last_attempt() {
    let mut log = TestLog::new(AccessLogFormat::Full);
    let answered = log.stage.call(request("hello"));
    let (mut first, respond) = log.below.next_request().await.unwrap();
    let second = first.replayable(1000).unwrap().into_request();
    for attempt in [first, second] {
        let (attempt, _) = attempt.into_parts();
        attempt.into_body().collect().await.unwrap();
    }
    respond.send_response(Ok(response("")));
    drop(answered.await.unwrap());
    let object = log.object();
    assert_eq!(
        (&object["request_bytes"], &object["response_bytes"]),
        (&5.into(), &0.into())
    );
}

#[tokio::test(start_paused = true)]
async fn a_person_reads_what_came_where_it_went_and_why_it_failed() {
    let mut log = TestLog::new(AccessLogFormat::Text);
    log.exchange(ask("/path?token=secret", &[]), |request| {
        let notes = request.context().notes.as_ref().unwrap();
        notes.of_backend(&"web:80".into());
        notes.send_to(([10, 0, 0, 2], 80).into(), Instant::now());
        notes.send_to(([10, 0, 0, 3], 80).into(), Instant::now());
        Ok(response("hello"))
    })
    .await;
    let error = || Error::new(Reason::ConnectRefused).detail("a\nb");
    log.exchange(ask("/", &[]), |_| Err(error())).await;
    drop(log.stage.call(ask("/", &[])));
    let lines = log.lines();
    let texts: Vec<_> = lines
        .iter()
        .map(|line| &line["10:42:03.462 ".len()..])
        .collect();
    let hint = Reason::ConnectRefused.hint();
    assert_eq!(
        texts,
        [
            "inbound GET test.example/path -> 200 in 1000.0 ms from 10.0.0.3:80 of web:80, sent 2 times",
            &format!(
                "inbound GET test.example/ -> 502 connect_refused in 1000.0 ms: a\\x0ab. {hint}"
            ),
            "inbound GET test.example/ -> no response cancelled by the client in 0.0 ms",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn hostile_values_stay_in_their_fields_and_are_cut() {
    for format in [
        AccessLogFormat::Apache,
        AccessLogFormat::Json,
        AccessLogFormat::Full,
        AccessLogFormat::Text,
    ] {
        let mut log = TestLog::new(format);
        let path = format!("/\"{{}}{}", "a".repeat(50_000));
        let mut asked = ask(&path, &[]);
        let bytes: Vec<u8> = (b'\t'..=b'\t')
            .chain(b' '..0x7f)
            .chain(0x80..=0xff)
            .collect();
        for name in ["host", "user-agent", "referer", "x-tenant", "x-request-id"] {
            let value = HeaderValue::from_bytes(&bytes.repeat(100)).unwrap();
            asked.headers_mut().insert(name, value);
        }
        log.exchange(asked, |_| Ok(response("hello"))).await;
        let line = log.line();
        assert!(
            line.bytes().all(|byte| (b' '..0x7f).contains(&byte)),
            "{line}"
        );
        assert!(line.len() < 40_000, "{}", line.len());
        if format != AccessLogFormat::Apache && format != AccessLogFormat::Text {
            log.object();
        }
    }
}

#[tokio::test]
async fn is_ready_when_the_stage_below_is() {
    let mut log = TestLog::new(AccessLogFormat::Full);
    assert_readiness_passes(log.stage, &mut log.below);
}

#[test]
fn the_incumbents_log_has_no_outbound_requests() {
    let log = AccessLog::start(&settings(AccessLogFormat::Json), None).unwrap();
    let writer = log.writer();
    assert!(ConnectionLog::new(&writer, Side::Outbound, &client()).is_none());
    assert!(ConnectionLog::new(&writer, Side::Inbound, &client()).is_some());
}

/// The lines of requests that this error has refused.
fn refused(format: AccessLogFormat, error: &Error) -> Vec<String> {
    let log = TestLog::new(format);
    let writer = log.log.writer();
    writer.refused(Side::Inbound, &client(), error);
    log.lines()
}

#[test]
fn a_request_that_no_stage_has_seen_has_a_line_with_its_client_and_reason() {
    let error = Error::new(Reason::HeadTooLarge).detail("message head is too large");
    let lines = refused(AccessLogFormat::Full, &error);
    let line: Value = serde_json::from_str(&lines[0]).unwrap();
    for (name, value) in [
        ("direction", Value::from("inbound")),
        ("client", "10.0.0.9:40000".into()),
        ("server", "10.0.0.1:8080".into()),
        ("outcome", "failure".into()),
        ("status", 431.into()),
        ("reason", "head_too_large".into()),
        ("origin", "client".into()),
        ("error", "message head is too large".into()),
    ] {
        assert_eq!(line[name], value, "{name} in {line}");
    }
    let text = &refused(AccessLogFormat::Text, &error)[0];
    let (_, text) = text.split_once(" inbound ").unwrap();
    let expected = "request of 10.0.0.9:40000 -> 431 head_too_large: message head is too large. ";
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn a_connection_of_http_2_ends_without_a_status() {
    let error = Error::new(Reason::MalformedRequest).reset(h2::Reason::PROTOCOL_ERROR);
    let lines = refused(AccessLogFormat::Full, &error);
    let line: Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!(line["reason"], "malformed_request");
    assert!(line.get("status").is_none(), "{line}");
    let text = &refused(AccessLogFormat::Text, &error)[0];
    assert!(
        text.contains(" -> no response malformed_request: "),
        "{text}"
    );
}

#[test]
fn other_ends_of_connections_and_the_incumbents_log_have_no_line() {
    for (format, reason) in [
        (AccessLogFormat::Full, Reason::ConnectRefused),
        (AccessLogFormat::Full, Reason::Unexpected),
        (AccessLogFormat::Apache, Reason::MalformedRequest),
        (AccessLogFormat::Json, Reason::HeaderTimeout),
    ] {
        let lines = refused(format, &Error::new(reason));
        assert!(lines.is_empty(), "{lines:?}");
    }
}
