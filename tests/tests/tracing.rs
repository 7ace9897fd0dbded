//! Tracing by the built binary: contexts that are passed on, spans that reach a collector, and collectors that do not answer.

#![allow(clippy::unwrap_used, missing_docs)]

use linkerd_api_proto::otlp::{STATUS_ERROR, Span, kind};
use linkerd_control::{EndpointSet, Policy, Route, RouteRetry, RouteRule};
use linkerd_tests::{
    Body, Builder, Collector, Http1, Mesh, MeshFile, Meshed, SOON, Server, attribute, blackhole,
    get, identity, refused, reply, soon,
};
use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

const COLLECTOR: &str = "LINKERD2_PROXY_TRACE_COLLECTOR_SVC_ADDR";
const SAMPLE: &str = "LINKERD_PROXY_TRACE_SAMPLE";

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// A GET with headers.
fn with(uri: &str, headers: &[(&'static str, &str)]) -> http::Request<Body> {
    let mut request = get(uri);
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    request
}

fn sampled(uri: &str) -> http::Request<Body> {
    let value = format!("00-{TRACE}-{PARENT}-01");
    with(uri, &[("traceparent", &value), ("tracestate", "a=1")])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn of(span: &Span, key: &str) -> String {
    attribute(&span.attributes, key).unwrap_or_default()
}

/// Spans of a path by start time (the server's first), as soon as there are `count`.
async fn spans(collector: &Collector, path: &str, count: usize) -> Vec<Span> {
    let what = format!("{count} spans of {path}");
    collector
        .wait_for(&what, |spans| {
            let named = spans.iter().filter(|span| span.name == path);
            let mut spans: Vec<_> = named.cloned().collect();
            spans.sort_by_key(|span| (span.start_time_unix_nano, span.kind));
            (spans.len() >= count).then_some(spans)
        })
        .await
}

#[tokio::test]
async fn the_spans_of_both_proxies_and_the_application_are_one_chain() {
    let server = Server::says("hello").await;
    let collector = Collector::start().await;
    let traced = |proxy: Builder| {
        proxy
            .env(COLLECTOR, collector.addr())
            .env("LINKERD2_PROXY_TRACE_SERVICE_NAME", "linkerd-proxy")
            .env(
                "LINKERD2_PROXY_TRACE_EXTRA_ATTRIBUTES",
                "k8s.pod.ip=10.0.0.1",
            )
            .env("HOSTNAME", "pod-1")
    };
    let mesh = Meshed::start(traced, traced).await;
    mesh.serve_api(server.addr(), |endpoint| endpoint);
    let mut asked = sampled("http://api/path?q=1");
    let agent = "tests/1".parse().unwrap();
    asked.headers_mut().insert("user-agent", agent);
    let answered = soon(async { mesh.http1().await.send(asked).await.unwrap() });
    assert_eq!(answered.await.text(), "hello");
    let all = spans(&collector, "/path", 4).await;
    let find = |side: &str, kind: i32| {
        let mut found = all
            .iter()
            .filter(|span| of(span, "direction") == side && span.kind == kind);
        found.next().unwrap()
    };
    let chain = [
        find("outbound", kind::SERVER),
        find("outbound", kind::CLIENT),
        find("inbound", kind::SERVER),
        find("inbound", kind::CLIENT),
    ];
    let mut parent = PARENT.to_owned();
    for span in chain {
        assert_eq!(hex(&span.trace_id), TRACE);
        assert_eq!(hex(&span.parent_span_id), parent);
        parent = hex(&span.span_id);
        for (key, value) in [
            ("http.request.method", "GET"),
            ("url.path", "/path"),
            // Left out, as in the access log.
            ("url.query", ""),
            ("network.transport", "tcp"),
            ("http.response.status_code", "200"),
            ("user_agent.original", "tests/1"),
            ("server.address", "api"),
            ("linkerd.outcome", "success"),
        ] {
            assert_eq!(of(span, key), value, "{key} of {span:?}");
        }
        assert!(span.end_time_unix_nano >= span.start_time_unix_nano);
        assert!(span.status.is_none(), "{span:?}");
    }
    let seen = server.last();
    let header = |name: &str| seen.headers.get(name).unwrap().to_str().unwrap();
    assert_eq!(header("traceparent"), format!("00-{TRACE}-{parent}-01"));
    assert_eq!(header("tracestate"), "a=1");
    assert_eq!(of(chain[1], "url.full"), "http://api/path");
    assert_eq!(of(chain[1], "server_id"), identity("api"));
    assert_eq!(of(chain[2], "client_id"), identity("web"));
    assert_eq!(
        of(chain[1], "linkerd.backend"),
        "api.default.svc.cluster.local:80"
    );
    assert!(!of(chain[0], "linkerd.route").is_empty());
    assert_eq!([0x300, 0x100, 0x300, 0x100], chain.map(|span| span.flags));
    let names: Vec<_> = chain[3].events.iter().map(|event| &*event.name).collect();
    assert!(names.contains(&"response.headers"), "{names:?}");
    let resource = collector.resource();
    for (key, value) in [
        ("service.name", "linkerd-proxy"),
        ("k8s.pod.ip", "10.0.0.1"),
        ("host.name", "pod-1"),
    ] {
        assert_eq!(attribute(&resource, key).as_deref(), Some(value));
    }
    assert!(attribute(&resource, "process.pid").is_some());
}

#[tokio::test]
async fn b3_is_passed_on_in_its_own_form() {
    let server = Server::says("hello").await;
    let collector = Collector::start().await;
    let mesh = Mesh::builder().env(COLLECTOR, collector.addr());
    let mesh = mesh.start().await;
    mesh.service("web", [server.addr()]);
    let mut client = mesh.http1().await;
    let multi = [
        ("x-b3-traceid", TRACE),
        ("x-b3-spanid", PARENT),
        ("x-b3-sampled", "1"),
    ];
    soon(client.send(with("http://web/multi", &multi)))
        .await
        .unwrap();
    let both = spans(&collector, "/multi", 2).await;
    assert_eq!(hex(&both[0].parent_span_id), PARENT);
    let seen = server.last().headers;
    assert_eq!(seen["x-b3-traceid"], TRACE);
    assert_eq!(seen["x-b3-spanid"], hex(&both[1].span_id));
    assert!(!seen.contains_key("traceparent"));
    let single = format!("{TRACE}-{PARENT}-1");
    soon(client.send(with("http://web/single", &[("b3", &single)])))
        .await
        .unwrap();
    let both = spans(&collector, "/single", 2).await;
    let expected = format!("{TRACE}-{}-1", hex(&both[1].span_id));
    assert_eq!(server.last().headers["b3"], expected);
}

#[tokio::test]
async fn a_retry_has_a_span_of_its_own() {
    let asked = AtomicUsize::new(0);
    let server = Server::start(move |_| {
        let status = match asked.fetch_add(1, Relaxed) {
            0 => 503,
            _ => 200,
        };
        async move {
            let mut response = reply("")?;
            *response.status_mut() = http::StatusCode::from_u16(status).unwrap();
            Ok(response)
        }
    })
    .await;
    let collector = Collector::start().await;
    let mesh = Mesh::builder().env(COLLECTOR, collector.addr());
    let mesh = mesh.start().await;
    mesh.service("web", [server.addr()]);
    let rule = RouteRule::new().retry(RouteRetry::new(2).status(500..=599));
    let route = Route::new("main").rule(rule);
    mesh.policy("web")
        .set(Policy::balance("web", 80).route(route));
    let mut client = mesh.http1().await;
    let asked = sampled("http://web/retried");
    assert_eq!(soon(client.send(asked)).await.unwrap().status, 200);
    let all = spans(&collector, "/retried", 3).await;
    let (first, second) = (&all[1], &all[2]);
    assert_eq!(of(first, "http.response.status_code"), "503");
    assert_eq!(of(first, "error.type"), "503");
    assert_eq!(first.status.as_ref().unwrap().code, STATUS_ERROR);
    assert_eq!(of(second, "http.response.status_code"), "200");
    assert_eq!(of(second, "http.request.resend_count"), "1");
    for attempt in [first, second] {
        assert_eq!(attempt.parent_span_id, all[0].span_id);
    }
    assert_eq!(of(&all[0], "linkerd.attempts"), "2");
    assert_ne!(first.span_id, second.span_id);
}

#[tokio::test]
async fn a_hedge_has_a_span_of_its_own_and_the_attempt_that_lost_is_cancelled() {
    let hangs = Arc::new(AtomicBool::new(false));
    let server = || {
        let hangs = hangs.clone();
        Server::start(move |_| {
            let hangs = hangs.swap(false, Relaxed);
            async move {
                if hangs {
                    pending::<()>().await;
                }
                reply("hello")
            }
        })
    };
    let servers = [server().await, server().await];
    let collector = Collector::start().await;
    let mesh = Mesh::builder()
        .env(COLLECTOR, collector.addr())
        .env("LINKERD_PROXY_OUTBOUND_HEDGE_PERCENTILE", "50")
        .env("LINKERD_PROXY_OUTBOUND_HEDGE_MIN_DELAY", "300ms");
    let mesh = mesh.start().await;
    mesh.service("web", servers.iter().map(Server::addr));
    let route = Route::new("main").rule(RouteRule::new());
    mesh.policy("web")
        .set(Policy::balance("web", 80).route(route));
    // The proxy learns the delay of hedges from these requests.
    for _ in 0..40 {
        assert_eq!(mesh.get("http://web/").await.status, 200);
    }
    hangs.store(true, Relaxed);
    let asked = sampled("http://web/hedged");
    let answered = soon(mesh.http1().await.send(asked)).await.unwrap();
    assert_eq!(answered.status, 200);
    let all = spans(&collector, "/hedged", 3).await;
    let outcomes: Vec<_> = all[1..]
        .iter()
        .map(|span| of(span, "linkerd.outcome"))
        .collect();
    assert_eq!(outcomes, ["cancelled", "success"]);
    assert_eq!(of(&all[2], "http.request.resend_count"), "1");
    let port = |span: &Span| of(span, "network.peer.port");
    assert_ne!(port(&all[1]), port(&all[2]));
    for attempt in &all[1..] {
        assert_eq!(attempt.parent_span_id, all[0].span_id);
    }
    assert_eq!(of(&all[0], "linkerd.attempts"), "2");
    assert_eq!(of(&all[0], "linkerd.outcome"), "success");
}

#[tokio::test]
async fn the_wait_for_discovery_is_an_event_of_the_request() {
    let server = Server::says("hello").await;
    let collector = Collector::start().await;
    let mesh = Mesh::builder().env(COLLECTOR, collector.addr());
    let mesh = mesh.start().await;
    mesh.service("web", [server.addr()]);
    mesh.policy("web").delay(Duration::from_millis(200));
    let mut client = mesh.http1().await;
    for path in ["/first", "/second"] {
        let asked = sampled(&format!("http://web{path}"));
        assert_eq!(soon(client.send(asked)).await.unwrap().status, 200);
    }
    let first = spans(&collector, "/first", 2).await.remove(0);
    let [event] = &first.events[..] else {
        panic!("one event: {first:?}");
    };
    assert_eq!(event.name, "destination.discovered");
    let waited = attribute(&event.attributes, "linkerd.wait_us").unwrap();
    assert!(waited.parse::<u64>().unwrap() >= 200_000, "{waited}");
    let second = spans(&collector, "/second", 2).await.remove(0);
    assert!(second.events.is_empty(), "{second:?}");
}

#[tokio::test]
async fn a_failure_has_its_reason_and_a_refused_endpoint_its_span() {
    let (gone, _guard) = refused();
    let collector = Collector::start().await;
    let mesh = Mesh::builder().env(COLLECTOR, collector.addr());
    let mesh = mesh.start().await;
    let mut client = mesh.http1().await;
    let answered = soon(client.send(sampled("http://nowhere/lost")))
        .await
        .unwrap();
    assert_eq!(answered.status, 502);
    let lost = spans(&collector, "/lost", 1).await.remove(0);
    assert_eq!(of(&lost, "linkerd.reason"), "unknown_destination");
    assert_eq!(of(&lost, "error.type"), "unknown_destination");
    assert_eq!(of(&lost, "linkerd.phase"), "discover");
    let status = lost.status.unwrap();
    assert!(status.code == STATUS_ERROR && !status.message.is_empty());

    let server = Server::says("hello").await;
    let endpoints = mesh.service("web", []);
    endpoints.set(EndpointSet::new([gone, server.addr()]));
    // Either endpoint may be chosen first; a refused endpoint is not chosen again.
    for n in 0..20 {
        let mut client = mesh.http1().await;
        let asked = sampled(&format!("http://web/moved/{n}"));
        let answered = soon(client.send(asked)).await.unwrap();
        assert_eq!(answered.text(), "hello");
    }
    let is_refused = |span: &&Span| of(span, "linkerd.reason") == "connect_refused";
    let path = |spans: &[Span]| Some(spans.iter().find(is_refused)?.name.clone());
    let path = collector.wait_for("a refused attempt", path).await;
    let all = spans(&collector, &path, 3).await;
    assert!(is_refused(&&all[1]), "{all:?}");
    assert_eq!(of(&all[1], "network.peer.port"), gone.port().to_string());
    let names: Vec<_> = all[1].events.iter().map(|event| &*event.name).collect();
    let connect = ["connect.start", "connect.end"];
    assert!(names.windows(2).any(|pair| pair == connect), "{names:?}");
    let port = server.addr().port().to_string();
    assert_eq!(of(&all[2], "network.peer.port"), port);
}

#[tokio::test]
async fn requests_without_a_decision_are_sampled_by_share_and_others_pass_unchanged() {
    let server = Server::says("hello").await;
    let collector = Collector::start().await;
    let unsampled = format!("00-{TRACE}-{PARENT}-00");
    for (sample, begins) in [("0", false), ("1", true)] {
        let mesh = Mesh::builder().env(COLLECTOR, collector.addr());
        let mesh = mesh.env(SAMPLE, sample).start().await;
        mesh.service("web", [server.addr()]);
        let mut client = mesh.http1().await;
        let asked = with("http://web/unsampled", &[("traceparent", &unsampled)]);
        soon(client.send(asked)).await.unwrap();
        assert_eq!(server.last().headers["traceparent"], unsampled);
        let path = format!("/root-{sample}");
        let uri = format!("http://web{path}");
        soon(client.send(with(&uri, &[]))).await.unwrap();
        let begun = server.last().headers.get("traceparent").cloned();
        assert_eq!(begun.is_some(), begins);
        if let Some(begun) = begun {
            let both = spans(&collector, &path, 2).await;
            assert!(both[0].parent_span_id.is_empty());
            let (trace, span) = (hex(&both[0].trace_id), hex(&both[1].span_id));
            assert_eq!(begun, format!("00-{trace}-{span}-01"));
        }
    }
    let all = collector.spans();
    assert!(all.iter().all(|span| span.name == "/root-1"), "{all:?}");
}

#[tokio::test]
async fn without_a_collector_contexts_pass_unchanged() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    let mut client = mesh.http1().await;
    soon(client.send(sampled("http://web/"))).await.unwrap();
    let expected = format!("00-{TRACE}-{PARENT}-01");
    assert_eq!(server.last().headers["traceparent"], expected);
    assert!(mesh.proxy.admin.state().await["trace"].is_null());
}

#[tokio::test]
async fn collectors_that_are_gone_or_hang_hold_up_no_request() {
    let ((gone, _gone), (hanging, _hanging)) = (refused(), blackhole());
    let server = Server::says("hello").await;
    for collector in [gone, hanging] {
        let mesh = Mesh::builder().env(COLLECTOR, collector);
        let mesh = mesh.env(SAMPLE, "1").start().await;
        mesh.service("web", [server.addr()]);
        let mut client = mesh.http1().await;
        let name = "trace_export_spans_dropped_total";
        // The queue holds 4,096 spans; spans beyond it are dropped.
        for _ in 0..2200 {
            let answered = soon(client.get("http://web/")).await.unwrap();
            assert_eq!(answered.text(), "hello");
        }
        let full = [("reason", "queue_full")];
        mesh.proxy.metric_reaches(name, &full, 100.0).await;
        let state = mesh.proxy.admin.state().await;
        let export = &state["trace"]["export"];
        assert_eq!(state["trace"]["collector"], collector.to_string());
        assert_eq!(export["exported"], 0);
        assert!(export["waiting_spans"].as_u64() <= export["max_waiting_spans"].as_u64());
    }
}

#[tokio::test]
async fn a_collector_with_a_name_is_called_with_tls() {
    let mesh = Meshed::start(|web| web, |api| api).await;
    let addr = mesh.control_addr();
    let proxy = mesh.proxy("shop").env(COLLECTOR, addr);
    let proxy = proxy.env(
        "LINKERD2_PROXY_TRACE_COLLECTOR_SVC_NAME",
        identity("control"),
    );
    let proxy = proxy.start().await;
    proxy
        .wait_for_log(&format!(
            "Tracing collector at {addr} ({})",
            identity("control")
        ))
        .await;
    let mut client = Http1::connect(proxy.outbound).await;
    let answered = soon(client.send(sampled("http://nowhere/"))).await.unwrap();
    assert_eq!(answered.status, 502);
    // The control plane is no collector: over TLS it answers `Unimplemented`.
    let dropped = "trace_export_spans_dropped_total";
    let failed = [("reason", "export_failed")];
    proxy.metric_reaches(dropped, &failed, 1.0).await;
    let state = proxy.admin.state().await;
    let error = state["trace"]["export"]["last_error"]["message"].to_string();
    assert!(error.contains("nimplemented"), "{error}");
    let calls = proxy.metrics().await;
    let server = identity("control");
    let labels = [
        ("tls", "true"),
        ("server_id", &*server),
        ("grpc_status", "12"),
    ];
    assert!(calls.sum("control_response_total", &labels) >= 1.0);
}

#[tokio::test]
async fn what_waits_is_sent_before_the_process_ends() {
    let server = Server::says("hello").await;
    let collector = Collector::start().await;
    let mesh = Mesh::builder().env(COLLECTOR, collector.addr());
    let mut mesh = mesh.env(SAMPLE, "1").start().await;
    mesh.service("web", [server.addr()]);
    assert_eq!(mesh.get("http://web/last").await.text(), "hello");
    mesh.proxy.terminate();
    assert!(mesh.proxy.wait_exit(SOON).await.success());
    let names: Vec<_> = collector.spans().into_iter().map(|it| it.name).collect();
    assert_eq!(names, ["/last", "/last"]);
}

#[tokio::test]
async fn run_prints_traces_for_a_person() {
    let server = Server::says("hello").await;
    let addr = server.addr();
    let services = format!("services: [{{name: web, port: 80, endpoints: [\"{addr}\"]}}]\n");
    let file = MeshFile::new("tracing", &services);
    let proxy = file.builder().arg("--trace").start().await;
    let mut client = Http1::connect(proxy.outbound).await;
    let answered = soon(client.send(sampled("http://web/printed")))
        .await
        .unwrap();
    assert_eq!(answered.text(), "hello");
    let line = format!("trace {TRACE} outbound GET http://web/printed: 200 in ");
    proxy.wait_for_log(&line).await;
    let attempt = proxy.wait_for_log("  attempt 1 at ").await;
    assert!(
        attempt.contains(&format!(" to {addr}: 200 in ")),
        "{attempt}"
    );
}
