//! The access log of the built binary: its forms in both directions, its outputs, and readers that are slow or gone.

#![allow(clippy::unwrap_used, missing_docs)]

use futures::stream;
use http::{Method, Response};
use hyper::body::Frame;
use linkerd_control::{EndpointSet, Policy};
use linkerd_tests::{
    Body, Fail, Http1, Mesh, MeshFile, Meshed, Metrics, Proxy, SOON, Server, Wire, chunks, empty,
    eventually, get, identity, refused, request, soon,
};
use serde_json::Value;
use std::path::Path;

const FORMAT: &str = "LINKERD_PROXY_ACCESS_LOG_FORMAT";
const OUTPUT: &str = "LINKERD_PROXY_ACCESS_LOG_OUTPUT";

/// A GET with headers, among them secrets.
fn asking(uri: &str) -> http::Request<Body> {
    let mut request = get(uri);
    for (name, value) in [
        ("user-agent", "tests/1"),
        ("x-tenant", "tenant-7"),
        ("authorization", "Bearer hidden"),
        ("cookie", "session=hidden"),
        ("l5d-client-id", "hidden"),
        ("referer", "http://page/a?token=hidden"),
        (
            "traceparent",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ),
    ] {
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    request
}

/// Waits for the line of a proxy that contains a text, as JSON.
async fn object(proxy: &Proxy, text: &str) -> Value {
    let line = proxy.wait_for_log(text).await;
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// Waits until a file has a text.
async fn file_has(path: &Path, text: &str) {
    let what = format!("{} has {text:?}", path.display());
    eventually(SOON, &what, || async {
        let all = std::fs::read_to_string(path).ok()?;
        all.contains(text).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_incumbents_forms_show_inbound_requests_only() {
    let server = Server::says("hello").await;
    let variable = "LINKERD2_PROXY_ACCESS_LOG";
    for form in ["apache", "json"] {
        let mesh =
            Meshed::start(|web| web.env(variable, form), |api| api.env(variable, form)).await;
        mesh.serve_api(server.addr(), |endpoint| endpoint);
        let asked = asking("http://api/path?q=1");
        let reply = mesh.http2().await.send(asked).await.unwrap();
        assert_eq!(reply.text(), "hello");
        let line = mesh.api.wait_for_log("/path?q=1").await;
        let client = identity("web");
        match form {
            "apache" => {
                let (_, rest) = line.split_once(' ').unwrap();
                let (before, rest) = rest.split_once('[').unwrap();
                assert_eq!(before, format!("{client} - "));
                let (_, rest) = rest.split_once("] ").unwrap();
                assert_eq!(rest, "\"GET http://api/path?q=1 HTTP/2.0\" 200");
            }
            _ => {
                let object: Value = serde_json::from_str(&line).unwrap();
                let keys: Vec<_> = object.as_object().unwrap().keys().cloned().collect();
                assert_eq!(
                    keys,
                    [
                        "client.addr",
                        "client.id",
                        "host",
                        "method",
                        "processing_ns",
                        "request_bytes",
                        "response_bytes",
                        "status",
                        "timestamp",
                        "total_ns",
                        "trace_id",
                        "uri",
                        "user_agent",
                        "version"
                    ]
                );
                assert_eq!(object["client.id"], client);
                assert_eq!(object["status"], 200);
                assert_eq!(object["response_bytes"], "5");
                assert_eq!(object["user_agent"], "tests/1");
            }
        }
        assert!(!mesh.web.log().contains("/path"), "{}", mesh.web.log());
    }
}

#[tokio::test]
async fn the_full_form_tells_the_way_of_a_request_on_both_sides() {
    let server = Server::says("hello").await;
    let full = |proxy: linkerd_tests::Builder| {
        proxy
            .env(FORMAT, "full")
            .env("LINKERD_PROXY_ACCESS_LOG_HEADERS", "x-tenant,authorization")
    };
    let mesh = Meshed::start(full, full).await;
    mesh.serve_api(server.addr(), |endpoint| endpoint);
    let asked = asking("http://api/path?token=hidden");
    let reply = mesh.http2().await.send(asked).await.unwrap();
    assert_eq!(reply.text(), "hello");
    let outbound = object(&mesh.web, "\"direction\":\"outbound\"").await;
    let inbound = object(&mesh.api, "\"direction\":\"inbound\"").await;
    for line in [&outbound, &inbound] {
        for (name, value) in [
            ("outcome", Value::from("success")),
            ("method", "GET".into()),
            ("path", "/path".into()),
            ("version", "HTTP/2".into()),
            ("status", 200.into()),
            ("sent", 1.into()),
            ("endpoint", server.addr().to_string().into()),
            ("response_bytes", 5.into()),
            ("trace_id", "0af7651916cd43dd8448eb211c80319c".into()),
            ("user_agent", "tests/1".into()),
            ("referer", "http://page/a".into()),
            ("headers", serde_json::json!({"x-tenant": "tenant-7"})),
        ] {
            assert_eq!(line[name], value, "{name} in {line}");
        }
        assert!(line["duration_us"].as_u64() >= line["first_byte_us"].as_u64());
        assert!(
            line["route"].is_string() && line["wait_us"].is_u64(),
            "{line}"
        );
    }
    assert_eq!(outbound["endpoint_identity"], identity("api"));
    assert_eq!(outbound["backend"], "api.default.svc.cluster.local:80");
    assert_eq!(inbound["client_identity"], identity("web"));
    assert_eq!(inbound["server"], mesh.api.inbound.to_string());
    for proxy in [&mesh.web, &mesh.api] {
        assert!(!proxy.log().contains("hidden"), "{}", proxy.log());
        proxy.wait_for_log("authorization is never logged").await;
    }
}

#[tokio::test]
async fn a_failure_has_its_reason_and_hint() {
    let mesh = Mesh::builder().env(FORMAT, "full").start().await;
    assert_eq!(mesh.get("http://nowhere/x").await.status, 502);
    let line = object(&mesh.proxy, "\"path\":\"/x\"").await;
    for (name, value) in [
        ("outcome", Value::from("failure")),
        ("authority", "nowhere".into()),
        ("status", 502.into()),
        ("reason", "unknown_destination".into()),
        ("origin", "control_plane".into()),
        ("phase", "discover".into()),
        ("sent", 0.into()),
    ] {
        assert_eq!(line[name], value, "{name} in {line}");
    }
    assert!(
        line["hint"].is_string() && line["error"].is_string(),
        "{line}"
    );
}

#[tokio::test]
async fn requests_that_the_codec_refuses_have_a_line() {
    let mesh = Mesh::builder()
        .env(FORMAT, "full")
        .env("LINKERD_PROXY_HTTP_HEADER_TIMEOUT", "200ms")
        .start()
        .await;
    mesh.service("web", [Server::says("hello").await.addr()]);
    let h2 = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnot a frame of HTTP/2";
    for (sent, status, reason) in [
        (
            "GET / HTTP/1.1\r\nhost: web\r\nno colon\r\n\r\n",
            400,
            "malformed_request",
        ),
        ("GET / HTTP/1.1\r\nhost: web\r\n", 408, "header_timeout"),
        (h2, 0, "malformed_request"),
    ] {
        let mut wire = mesh.wire().await;
        let client = wire.local_addr().to_string();
        wire.send(sent).await;
        if reason != "header_timeout" {
            // The line comes with the connection's end, which waits for the client's.
            wire.finish().await;
        }
        let line = object(&mesh.proxy, &client).await;
        for (name, value) in [
            ("direction", Value::from("outbound")),
            ("client", client.into()),
            ("outcome", "failure".into()),
            ("reason", reason.into()),
            ("origin", "client".into()),
        ] {
            assert_eq!(line[name], value, "{name} in {line}");
        }
        assert_eq!(
            line["status"].as_u64().unwrap_or_default(),
            status,
            "{line}"
        );
    }
}

#[tokio::test]
async fn a_response_that_its_endpoint_resets_has_one_reason_everywhere() {
    let server = Server::start(|_| async {
        let reset = h2::Error::from(h2::Reason::INTERNAL_ERROR);
        let frames = [Ok(Frame::data("begun".into())), Err(reset.into())];
        Ok(Response::new(chunks(stream::iter(frames))))
    })
    .await;
    let mesh = Mesh::builder().env(FORMAT, "full").start().await;
    mesh.service("web", [server.addr()]);
    let client = mesh.http2().await;
    assert!(soon(client.get("http://web/x")).await.is_err());
    let line = object(&mesh.proxy, "\"path\":\"/x\"").await;
    assert_eq!(line["reason"], "stream_reset", "{line}");
    let reason = [("reason", "stream_reset")];
    mesh.proxy
        .metric_reaches("proxy_failures_total", &reason, 1.0)
        .await;
    let state = mesh.proxy.admin.state().await;
    assert_eq!(state["failures"]["last"][0]["reason"], "stream_reset");
}

#[tokio::test]
async fn a_failure_that_the_endpoints_proxy_answers_is_told_by_that_of_the_client() {
    let (application, _guard) = refused();
    let full = |proxy: linkerd_tests::Builder| proxy.env(FORMAT, "full");
    let mesh = Meshed::start(full, |api| api).await;
    mesh.serve_api(application, |endpoint| endpoint);
    mesh.web.admin.state().await;
    let reply = mesh.http1().await.get("http://api/x").await.unwrap();
    assert_eq!(reply.status, 502);

    let line = object(&mesh.web, "\"path\":\"/x\"").await;
    assert_eq!(line["outcome"], "failure", "{line}");
    assert_eq!(line["reason"], "connect_refused", "{line}");
    let told = "told by the endpoint's proxy: ";
    assert!(line["error"].as_str().unwrap().starts_with(told), "{line}");

    let failures = mesh.web.admin.state().await["failures"].take();
    let failure = &failures["last"][0];
    assert_eq!(failures["total"], 1, "{failures:#}");
    for (name, value) in [
        ("told_by_peer", Value::from(true)),
        ("reason", "connect_refused".into()),
        ("status", 502.into()),
        ("path", "/x".into()),
    ] {
        assert_eq!(failure[name], value, "{failures:#}");
    }
    let (web, api) = (mesh.web.metrics().await, mesh.api.metrics().await);
    let reason = [("reason", "connect_refused")];
    let counted = |metrics: &Metrics| metrics.sum("proxy_failures_total", &reason);
    assert!(counted(&web) == 0.0 && counted(&api) >= 1.0);
}

#[tokio::test]
async fn attempts_and_connects_are_counted() {
    let (gone, _guard) = refused();
    let server = Server::says("hello").await;
    let mesh = Mesh::builder().env(FORMAT, "full").start().await;
    mesh.controller
        .policy("web:80")
        .set(Policy::balance("web", 80));
    mesh.endpoints("web")
        .set(EndpointSet::new([gone, server.addr()]));
    let mut client = mesh.http1().await;
    let all = async {
        for n in 0.. {
            let reply = soon(client.get(&format!("http://web/{n}"))).await.unwrap();
            assert_eq!(reply.text(), "hello");
            let line = object(&mesh.proxy, &format!("\"path\":\"/{n}\"")).await;
            if line["sent"] == 2 {
                assert_eq!(line["returned"], 1, "{line}");
                assert_eq!(line["endpoint"], server.addr().to_string());
                assert!(line["connect_us"].is_u64(), "{line}");
                return;
            }
        }
    };
    soon(all).await;
}

#[tokio::test]
async fn of_successes_none_is_logged_and_of_failures_all() {
    let server = Server::says("hello").await;
    let builder = Mesh::builder().env(FORMAT, "full");
    let mesh = builder
        .env("LINKERD_PROXY_ACCESS_LOG_SAMPLE", "0")
        .start()
        .await;
    mesh.service("web", [server.addr()]);
    for n in 0..10 {
        assert_eq!(mesh.get(&format!("http://web/{n}")).await.text(), "hello");
        assert_eq!(mesh.get(&format!("http://nowhere/{n}")).await.status, 502);
    }
    object(&mesh.proxy, "\"path\":\"/9\"").await;
    let log = mesh.proxy.log();
    assert_eq!(log.matches("\"outcome\":\"failure\"").count(), 10, "{log}");
    assert_eq!(log.matches("\"outcome\":\"success\"").count(), 0, "{log}");
}

#[tokio::test]
async fn a_reader_that_is_stuck_stops_no_request_and_drops_are_counted() {
    let server = Server::says("hello").await;
    let mesh = Mesh::builder().env(FORMAT, "full").start().await;
    mesh.service("web", [server.addr()]);
    mesh.proxy.pause_log(true);
    let mut client = mesh.http1().await;
    let agent = "a".repeat(1000);
    let dropped = async |at_least: u64| {
        let state = mesh.proxy.admin.state().await;
        let dropped = state["access_log"]["queue"]["dropped_lines"].as_u64();
        dropped.unwrap() >= at_least
    };
    // A pipe and the queue hold a few hundred kilobytes.
    for n in 0..100 {
        for _ in 0..50 {
            let mut asked = request(Method::GET, "http://web/", empty());
            let headers = asked.headers_mut();
            headers.insert("user-agent", agent.parse().unwrap());
            assert_eq!(soon(client.send(asked)).await.unwrap().text(), "hello");
        }
        if dropped(10).await {
            break;
        }
        assert!(n < 99, "nothing was dropped");
    }
    let metrics = mesh.proxy.metrics().await;
    assert!(metrics.sum("proxy_access_log_lines_dropped_total", &[]) >= 10.0);
    mesh.proxy.pause_log(false);
    mesh.proxy.wait_for_log("{\"dropped_lines\":").await;
    assert_eq!(mesh.get("http://web/after").await.text(), "hello");
    mesh.proxy.wait_for_log("\"path\":\"/after\"").await;
}

#[tokio::test]
async fn a_file_is_opened_again_at_sighup() {
    let server = Server::says("hello").await;
    let dir = tempfile::tempdir().unwrap();
    let (path, moved) = (dir.path().join("log"), dir.path().join("log.1"));
    let builder = Mesh::builder().env(FORMAT, "full");
    let mesh = builder.env(OUTPUT, path.display()).start().await;
    mesh.service("web", [server.addr()]);
    let ask = async |path: &str| {
        let reply = mesh.get(&format!("http://web/{path}")).await;
        assert_eq!(reply.text(), "hello");
    };
    ask("first").await;
    file_has(&path, "/first").await;
    std::fs::rename(&path, &moved).unwrap();
    ask("second").await;
    file_has(&moved, "/second").await;
    mesh.proxy.signal("HUP");
    mesh.proxy
        .wait_for_log("received SIGHUP, opening the access log again")
        .await;
    file_has(&path, "").await;
    ask("third").await;
    file_has(&path, "/third").await;
    assert!(!std::fs::read_to_string(&moved).unwrap().contains("/third"));
    assert!(
        !mesh.proxy.log().contains("outcome"),
        "{}",
        mesh.proxy.log()
    );
}

#[tokio::test]
async fn a_file_that_cannot_be_opened_is_named_at_the_start() {
    let exit = Proxy::builder("127.0.0.1:1".parse().unwrap())
        .env(FORMAT, "full")
        .env(OUTPUT, "/nowhere/log")
        .run()
        .await;
    assert_eq!(exit.status.code(), Some(1));
    let text = "Initialization failure: the access log /nowhere/log: ";
    assert!(exit.output.contains(text), "{}", exit.output);
}

#[tokio::test]
async fn a_person_sees_each_request_on_the_terminal() {
    let server = Server::says("hello").await;
    let addr = server.addr();
    let services = format!("services: [{{name: web, port: 80, endpoints: [\"{addr}\"]}}]\n");
    let file = MeshFile::new("access-log", &services);
    let proxy = file.builder().arg("--access-log").start().await;
    let mut client = Http1::connect(proxy.outbound).await;
    let asked = asking("http://web/path?token=hidden");
    assert_eq!(soon(client.send(asked)).await.unwrap().text(), "hello");
    let line = proxy.wait_for_log("GET web/path -> 200 in ").await;
    assert!(line.contains(&format!(" from {addr}")), "{line}");
    assert_eq!(soon(client.get("http://wob/")).await.unwrap().status, 502);
    let line = proxy
        .wait_for_log("GET wob/ -> 502 unknown_destination")
        .await;
    assert!(line.contains("Is the name spelt"), "{line}");
    assert!(!proxy.log().contains("hidden"), "{}", proxy.log());
}

#[tokio::test]
async fn a_host_of_a_client_does_not_look_like_the_result() {
    let server = Server::says("hello").await;
    let addr = server.addr();
    let services = format!("services: [{{name: web, port: 80, endpoints: [\"{addr}\"]}}]\n");
    let file = MeshFile::new("access-log-forged", &services);
    let proxy = file.builder().arg("--access-log").start().await;
    let mut wire = Wire::connect(proxy.outbound).await;
    let forged = "web/y -> 200 in 0.1 ms from 10.0.0.1:80";
    wire.send(&format!("GET /x HTTP/1.1\r\nhost: {forged}\r\n\r\n"))
        .await;
    let line = proxy.wait_for_log(" outbound GET web/y").await;
    assert_eq!(line.matches(" -> ").count(), 1, "{line}");
    assert!(line.contains(" -> 400 "), "{line}");
}

#[tokio::test]
async fn it_is_off_unless_asked_for() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    assert_eq!(mesh.get("http://web/path").await.text(), "hello");
    let state = mesh.proxy.admin.state().await;
    assert_eq!(state["access_log"], Value::Null);
    let level = mesh.proxy.admin.get("/proxy-log-level").await;
    assert!(
        level.text().starts_with("_access_log=off,"),
        "{}",
        level.text()
    );
    assert!(!mesh.proxy.log().contains("/path"));
}

/// A proxy that is ended accounts for the requests that it leaves.
#[tokio::test]
async fn a_request_that_is_open_at_the_end_of_the_grace_period_has_its_line_and_its_reason() {
    let silent = Server::start(|_| std::future::pending::<Result<Response<Body>, Fail>>()).await;
    let mut mesh = Mesh::builder()
        .env(FORMAT, "full")
        .env("LINKERD2_PROXY_SHUTDOWN_GRACE_PERIOD", "300ms")
        .env("LINKERD_PROXY_SHUTDOWN_WINDOW", "0s")
        .start()
        .await;
    mesh.service("web", [silent.addr()]);
    let mut wire = mesh.wire().await;
    wire.send("GET /stuck HTTP/1.1\r\nhost: web\r\n\r\n").await;
    eventually(SOON, "the request arrives", || async {
        (silent.requests() == 1).then_some(())
    })
    .await;
    mesh.proxy.terminate();
    assert!(mesh.proxy.wait_exit(SOON).await.success());
    let line = object(&mesh.proxy, "\"/stuck\"").await;
    assert_eq!(line["reason"], "shutdown_deadline", "{line}");
    assert_eq!(line["outcome"], "failure", "{line}");
    mesh.proxy
        .wait_for_log("Open connections were cut off")
        .await;
}
