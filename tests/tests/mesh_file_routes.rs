//! Routes, breakers and profiles of a mesh file, edited while requests flow.

#![allow(clippy::unwrap_used, missing_docs)]

use linkerd_tests::{
    Grpc, Http1, Http2, Load, MeshFile, Message, Proxy, Reply, SOON, Server, eventually, get,
    grpc_handler, reply, soon,
};
use std::{
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::Duration,
};

/// A service `web` with further fields, and its versions.
fn web(stable: &Server, canary: &Server, fields: &str) -> String {
    let (stable, canary) = (stable.addr(), canary.addr());
    format!(
        "services:
- name: web
  port: 80
  endpoints: [{stable}]
{fields}
- {{name: web-stable, port: 80, endpoints: [{stable}]}}
- {{name: web-canary, port: 80, endpoints: [{canary}]}}
"
    )
}

/// A split by weight, after the rules in `before`.
fn split(stable: u32, canary: u32, before: &str) -> String {
    format!(
        "  routes:
  - name: main
    rules:
{before}
    - backendRefs:
      - {{name: web-stable, weight: {stable}}}
      - {{name: web-canary, weight: {canary}}}"
    )
}

const FAULT: &str = "    - matches: [{path: {value: /pay}}]
      filters:
      - type: FailureInjector
        failureInjector: {statusCode: 503, message: on purpose}";

async fn fetch(proxy: &Proxy, path: &str) -> Reply {
    let mut client = Http1::connect(proxy.outbound).await;
    let request = get(&format!("http://web{path}"));
    soon(client.send(request)).await.unwrap()
}

/// Waits until one version answers 20 requests in a row.
async fn all_by(proxy: &Proxy, version: &str) {
    eventually(SOON, "one version answers all", || async {
        for _ in 0..20 {
            if fetch(proxy, "/").await.text() != version {
                return None;
            }
        }
        Some(())
    })
    .await;
}

async fn status_is(proxy: &Proxy, path: &str, status: u16) -> Reply {
    eventually(SOON, "the status is seen", || async {
        let reply = fetch(proxy, path).await;
        (reply.status == status).then_some(reply)
    })
    .await
}

#[tokio::test]
async fn a_split_follows_the_edits_of_its_weights() {
    let (stable, canary) = (Server::says("stable").await, Server::says("canary").await);
    let mesh = |s, c| web(&stable, &canary, &split(s, c, ""));
    let file = MeshFile::new("split", &mesh(1, 0));
    let proxy = file.start().await;
    let load = Load::through(&proxy, 4, Duration::from_millis(1), "http://web/");
    load.more(200).await;
    assert_eq!(canary.requests(), 0);

    file.write(&mesh(1, 1));
    eventually(SOON, "the canary gets requests", || async {
        (canary.requests() > 0).then_some(())
    })
    .await;
    let before = (stable.requests(), canary.requests());
    load.more(1_000).await;
    let of_stable = (stable.requests() - before.0) as f64;
    let of_canary = (canary.requests() - before.1) as f64;
    let share = of_canary / (of_stable + of_canary);
    assert!((0.4..0.6).contains(&share), "{share}");

    // A mistake changes nothing.
    file.write(&mesh(0, 1).replace("web-canary, weight", "web-canaries, weight"));
    let line = proxy.wait_for_log("names no service of this file").await;
    assert!(line.contains("did you mean \"web-canary\"?"), "{line}");
    let before = stable.requests();
    load.more(100).await;
    assert!(stable.requests() > before);

    file.write(&mesh(0, 1));
    all_by(&proxy, "canary").await;
    let before = stable.requests();
    load.more(200).await;
    assert_eq!(stable.requests(), before);
    load.stop().await.assert_clean();
}

#[tokio::test]
async fn a_fault_route_appears_and_goes_while_other_requests_flow() {
    let (stable, canary) = (Server::says("stable").await, Server::says("canary").await);
    let mesh = |before| web(&stable, &canary, &split(1, 1, before));
    let file = MeshFile::new("fault", &mesh(""));
    let proxy = file.start().await;
    let load = Load::through(&proxy, 4, Duration::from_millis(1), "http://web/");
    assert_eq!(fetch(&proxy, "/pay").await.status, 200);

    file.write(&mesh(FAULT));
    let failed = status_is(&proxy, "/pay", 503).await;
    let why = failed.header("l5d-proxy-error").unwrap();
    assert!(why.contains("on purpose"), "{failed:?}");
    assert_eq!(fetch(&proxy, "/payment").await.status, 200);
    load.more(200).await;

    file.write(&mesh(""));
    status_is(&proxy, "/pay", 200).await;
    load.more(200).await;
    load.stop().await.assert_clean();
}

#[tokio::test]
async fn failures_are_retried_and_requests_without_a_rule_get_404() {
    let turn = AtomicUsize::new(0);
    let flaky = Server::start(move |_| {
        let first = turn.fetch_add(1, SeqCst) == 0;
        async move {
            let mut answer = reply("done")?;
            if first {
                *answer.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
            }
            Ok(answer)
        }
    })
    .await;
    let routes = "  routes:
  - rules:
    - matches: [{path: {value: /try}}]
      retry: {attempts: 2, codes: [5xx]}
      timeouts: {request: 10s}
  breaker: {consecutiveFailures: 50}";
    let file = MeshFile::new("retry", &web(&flaky, &flaky, routes));
    let proxy = file.start().await;
    let done = fetch(&proxy, "/try").await;
    assert_eq!((done.status.as_u16(), done.text()), (200, "done"));
    assert_eq!(flaky.requests(), 2);
    assert_eq!(fetch(&proxy, "/other").await.status, 404);
}

#[tokio::test]
async fn a_profile_overrides_the_destination() {
    let (stable, canary) = (Server::says("stable").await, Server::says("canary").await);
    let file = MeshFile::new("profile", &web(&stable, &canary, ""));
    let proxy = file.start().await;
    let load = Load::through(&proxy, 2, Duration::from_millis(1), "http://web/");
    all_by(&proxy, "stable").await;
    let profile = "  profile:
    routes: [{name: all, condition: {pathRegex: /.*}}]
    dstOverrides: [{authority: web-canary, weight: 1}]";
    file.write(&web(&stable, &canary, profile));
    all_by(&proxy, "canary").await;
    let route = [("rt_route", "all"), ("direction", "outbound")];
    proxy
        .metric_reaches("route_request_total", &route, 20.0)
        .await;
    load.stop().await.assert_clean();
}

#[tokio::test]
async fn a_breaker_of_the_file_ejects_an_endpoint_that_fails() {
    let good = Server::says("good").await;
    let broken = Server::start(|_| async {
        let mut answer = reply("broken")?;
        *answer.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
        Ok(answer)
    })
    .await;
    let (one, other) = (good.addr(), broken.addr());
    let service = format!("services: [{{name: web, port: 80, endpoints: ['{one}', '{other}']");
    let breaker = "breaker: {consecutiveFailures: 1, backoff: {min: 10m}}";
    let file = MeshFile::new("breaker", &format!("{service}, {breaker}}}]\n"));
    let proxy = file.start().await;
    eventually(SOON, "the broken endpoint fails", || async {
        (fetch(&proxy, "/").await.status == 500).then_some(())
    })
    .await;
    all_by(&proxy, "good").await;
    let before = broken.requests();
    for _ in 0..50 {
        assert_eq!(fetch(&proxy, "/").await.text(), "good");
    }
    assert_eq!(broken.requests(), before);
}

#[tokio::test]
async fn grpc_routes_match_methods_and_fail_with_codes() {
    let server = Server::start(grpc_handler).await;
    let addr = server.addr();
    let text = format!(
        "services:
- name: web
  port: 80
  protocol: grpc
  endpoints: ['{addr}']
  routes:
  - rules:
    - matches: [{{method: {{service: test.Echo, method: Unary}}}}]
      filters: [{{failureInjector: {{code: RESOURCE_EXHAUSTED, message: on purpose}}}}]
    - matches: [{{method: {{service: test.Echo}}}}]
"
    );
    let file = MeshFile::new("grpc", &text);
    let proxy = file.start().await;
    let client = Grpc::new(Http2::connect(proxy.outbound).await, "web");
    let failed = soon(client.unary(Message::new("hello", 1))).await;
    let status = failed.unwrap_err();
    assert_eq!(status.code(), tonic::Code::ResourceExhausted);
    assert_eq!(status.message(), "on purpose");
    let mut messages = soon(client.stream(Message::new("hello", 2))).await.unwrap();
    let first = soon(messages.message()).await.unwrap();
    assert!(first.is_some());
    file.write(&text.replace("method: Unary", "method: Other"));
    eventually(SOON, "the fault is gone", || async {
        client.unary(Message::new("hello", 1)).await.ok()
    })
    .await;
}

#[tokio::test]
async fn a_check_reports_all_errors_of_routes() {
    let server = Server::says("hello").await;
    let routes = "  routes:
  - hostname: [web]
    rules:
    - matches: [{path: {type: Prefix, value: /a}}, {path: {type: RegularExpression, value: '('}}]
      backendRefs: [{name: web-canry}]
      timeouts: {request: 10}
      retry: {codes: [99]}";
    let file = MeshFile::new("check-routes", &web(&server, &server, routes));
    let path = file.path().to_str().unwrap();
    let check = file.builder().arguments(&["check", "--mesh", path]);
    let exit = check.run().await;
    assert_eq!(exit.status.code(), Some(64));
    for told in [
        "yaml:6:5: unknown field `hostname`; did you mean `hostnames`?",
        "yaml:8:31: `Prefix` is no type; use Exact, PathPrefix or RegularExpression",
        "yaml:8:92: `(` is not a usable regular expression",
        "yaml:9:28: backend \"web-canry\" names no service of this file; did you mean \"web-canary\"?",
        "yaml:10:27: `10` is not a duration",
        "yaml:11:23: `99` is no HTTP status",
        "6 failed",
    ] {
        assert!(exit.output.contains(told), "{told} in {}", exit.output);
    }
}

/// An HTTPRoute as `kubectl get -o yaml` prints it, as an item of the field `routes`: the server has filled in defaults,
/// metadata and a status. The second rule had neither matches nor backends.
const HTTP_ROUTE: &str = r#"  routes:
  - apiVersion: gateway.networking.k8s.io/v1
    kind: HTTPRoute
    metadata:
      annotations:
        kubectl.kubernetes.io/last-applied-configuration: |
          {"apiVersion":"gateway.networking.k8s.io/v1","kind":"HTTPRoute","metadata":{"annotations":{},"name":"main","namespace":"default"}}
      creationTimestamp: "2026-01-01T10:20:30Z"
      generation: 2
      labels:
        app.kubernetes.io/name: web
      name: main
      namespace: default
      resourceVersion: "4711"
      uid: 1c3a6d0e-6d0c-4a70-9b70-3b9d1f1f2c11
    spec:
      hostnames:
      - web
      parentRefs:
      - group: ""
        kind: Service
        name: web
        port: 80
      rules:
      - backendRefs:
        - group: ""
          kind: Service
          name: web-canary
          port: 80
          weight: 1
        filters:
        - responseHeaderModifier:
            set:
            - name: by
              value: route
          type: ResponseHeaderModifier
        matches:
        - headers:
          - name: version
            type: Exact
            value: canary
          path:
            type: PathPrefix
            value: /
        name: canary
        timeouts:
          backendRequest: 500ms
          request: 10s
      - matches:
        - path:
            type: PathPrefix
            value: /
    status:
      parents:
      - conditions:
        - lastTransitionTime: "2026-01-01T10:20:31Z"
          message: ""
          reason: Accepted
          status: "True"
          type: Accepted
        controllerName: linkerd.io/policy-controller
        parentRef:
          group: ""
          kind: Service
          name: web
          namespace: default
          port: 80"#;

#[tokio::test]
async fn an_http_route_may_be_the_output_of_kubectl() {
    let (stable, canary) = (Server::says("stable").await, Server::says("canary").await);
    let file = MeshFile::new("kubectl-http", &web(&stable, &canary, HTTP_ROUTE));
    let proxy = file.start().await;
    assert_eq!(fetch(&proxy, "/").await.text(), "stable");
    let mut client = Http1::connect(proxy.outbound).await;
    let to_canary = || {
        let mut request = get("http://web/");
        let headers = request.headers_mut();
        headers.insert("version", "canary".parse().unwrap());
        request
    };
    let reply = soon(client.send(to_canary())).await.unwrap();
    assert_eq!(reply.header("by"), Some("route"));
    assert_eq!(reply.text(), "canary");
    canary.set_latency(Duration::from_secs(5));
    let reply = soon(client.send(to_canary())).await.unwrap();
    let status = reply.header("proxy-status").unwrap_or_default();
    assert!(status.contains("response_timeout"), "{status}");
    // A route without rules is one for all requests.
    let bare =
        "  routes: [{kind: HTTPRoute, metadata: {name: bare}, spec: {parentRefs: [{name: web}]}}]";
    file.write(&web(&stable, &canary, bare));
    proxy.wait_for_log("Mesh file reloaded").await;
    assert_eq!(fetch(&proxy, "/any").await.text(), "stable");
}

/// A GRPCRoute as `kubectl get -o yaml` prints it. Its second rule had no matches.
const GRPC_ROUTE: &str = r#"  protocol: grpc
  routes:
  - apiVersion: gateway.networking.k8s.io/v1
    kind: GRPCRoute
    metadata:
      creationTimestamp: "2026-01-01T10:20:30Z"
      generation: 1
      name: calls
      namespace: default
      resourceVersion: "4712"
      uid: 0a4f8a5e-93ce-4a8a-8a0b-6a5f6b7a9d12
    spec:
      parentRefs:
      - group: ""
        kind: Service
        name: web
      rules:
      - backendRefs:
        - group: ""
          kind: Service
          name: web-canary
          port: 80
          weight: 1
        matches:
        - method:
            method: Say
            service: test.Echo
            type: Exact
        name: say
      - backendRefs:
        - group: ""
          kind: Service
          name: web-stable
          port: 80
          weight: 1
    status:
      parents: []"#;

#[tokio::test]
async fn a_grpc_route_may_be_the_output_of_kubectl() {
    let (stable, canary) = (Server::says("stable").await, Server::says("canary").await);
    let file = MeshFile::new("kubectl-grpc", &web(&stable, &canary, GRPC_ROUTE));
    let proxy = file.start().await;
    for (path, expected) in [("/test.Echo/Say", "canary"), ("/test.Echo/Other", "stable")] {
        let client = Http2::connect(proxy.outbound).await;
        let mut request = get(&format!("http://web{path}"));
        *request.method_mut() = http::Method::POST;
        let reply = soon(client.send(request)).await.unwrap();
        assert_eq!(reply.text(), expected, "{path}");
    }
}
