//! `/explain`: the path of a request that is not sent.

#![allow(clippy::unwrap_used, missing_docs)]

use http::Method;
use linkerd_tests::{Http1, Mesh, MeshFile, Proxy, SOON, Server, binary, eventually, get, soon};
use serde_json::{Value, json};
use std::process::Command;

/// A service with a rule for a header, one for a path with a fault, and a split.
fn mesh(stable: &Server, canary: &Server) -> String {
    let (stable, canary) = (stable.addr(), canary.addr());
    format!(
        "services:
- name: web
  port: 80
  endpoints: [{stable}]
  routes:
  - name: main
    rules:
    - matches:
      - path: {{value: /}}
        headers: [{{name: x-version, value: '2'}}]
      backendRefs:
      - {{name: web-canary}}
    - matches: [{{path: {{value: /pay}}}}]
      filters:
      - type: FailureInjector
        failureInjector: {{statusCode: 503, message: on purpose}}
    - backendRefs:
      - {{name: web-stable, weight: 3}}
      - {{name: web-canary, weight: 1}}
- {{name: web-stable, port: 80, endpoints: [{stable}]}}
- {{name: web-canary, port: 80, endpoints: [{canary}]}}
"
    )
}

async fn explain(proxy: &Proxy, query: &str) -> (u16, Value) {
    let reply = proxy.admin.get(&format!("/explain?{query}")).await;
    let document = serde_json::from_slice(&reply.body);
    (reply.status.as_u16(), document.unwrap())
}

async fn fetch(proxy: &Proxy, url: &str) {
    let mut client = Http1::connect(proxy.outbound).await;
    let _ = soon(client.send(get(url))).await.unwrap();
}

/// The reasons of `not_taken`, by the number of the rule.
fn reasons(document: &Value) -> Vec<(u64, String)> {
    let others = document["not_taken"].as_array().unwrap().iter();
    let mut reasons: Vec<_> = others
        .map(|other| {
            let why = other["why_not"].as_str().unwrap().to_owned();
            (other["rule"].as_u64().unwrap(), why)
        })
        .collect();
    reasons.sort();
    reasons
}

#[tokio::test]
async fn the_rule_of_a_request_is_explained_and_nothing_is_sent() {
    let (stable, canary) = (Server::says("stable").await, Server::says("canary").await);
    let file = MeshFile::new("explain", &mesh(&stable, &canary));
    let proxy = file.start().await;
    fetch(&proxy, "http://web/").await;
    let sent = stable.requests() + canary.requests();

    let (status, document) = explain(&proxy, "url=http://web/a&header=x-version:2").await;
    assert_eq!(status, 200, "{document:#}");
    assert_eq!(document["target"], "web:80");
    assert_eq!(document["routed_by"]["source"], "policy");
    assert_eq!(document["policy"]["freshness"]["connected"], true);
    assert_eq!(document["route"]["rule"], 0);
    assert_eq!(
        document["route"]["condition"],
        "path / or below and header x-version \"2\""
    );
    assert_eq!(
        reasons(&document),
        [
            (1, "path must be /pay or below, and is /a".to_owned()),
            (
                2,
                "it matches, but the rule that takes the request has more headers".to_owned()
            ),
        ]
    );

    let (_, document) = explain(&proxy, "method=POST&url=http://web/pay/1").await;
    assert_eq!(document["route"]["rule"], 1);
    let filters = &document["route"]["filters"];
    assert_eq!(
        *filters,
        json!(["fails 100 % of requests with status 503: on purpose"])
    );

    // The backends of the split, one of which has been used, with their shares and endpoints.
    let (_, document) = explain(&proxy, "url=http://web/").await;
    let backends = &document["route"]["distribution"]["backends"];
    assert_eq!(backends[0]["share"], 0.75);
    assert_eq!(backends[1]["weight"], 1);
    let states = eventually(SOON, "the backends are known", async || {
        let (_, document) = explain(&proxy, "url=http://web/").await;
        let backends = &document["route"]["distribution"]["backends"];
        let state = backends[0]["workers"][0].clone();
        (state["available"] == true).then_some(state)
    })
    .await;
    let endpoint = &states["balancer"]["endpoints"][0]["endpoint"];
    assert_eq!(*endpoint, stable.addr().to_string());
    assert_eq!(stable.requests() + canary.requests(), sent);
}

#[tokio::test]
async fn in_ingress_mode_a_header_names_the_target() {
    let server = Server::says("hello").await;
    let mesh = Mesh::builder().env("LINKERD2_PROXY_INGRESS_MODE", true);
    let mesh = mesh.start().await;
    mesh.service("web", [server.addr()]);
    let mut request = get("http://shop/");
    let named = "web:80".parse().unwrap();
    request.headers_mut().insert("l5d-dst-override", named);
    let reply = soon(mesh.http1().await.send(request)).await.unwrap();
    assert_eq!(reply.status, 200);
    let query = "url=http://shop/&header=l5d-dst-override:web:80";
    let (status, document) = explain(&mesh.proxy, query).await;
    assert_eq!(status, 200, "{document}");
    assert_eq!(document["target"], "web:80");
    let query = "url=http://shop/&header=l5d-dst-override:10.0.0.1:80";
    let (_, document) = explain(&mesh.proxy, query).await;
    let refused = document["refused"].as_str().unwrap();
    assert!(refused.contains("must name a service"), "{refused}");
}

#[tokio::test]
async fn a_target_that_is_not_in_use_is_not_asked_for() {
    let (stable, canary) = (Server::says("stable").await, Server::says("canary").await);
    let file = MeshFile::new("explain-unknown", &mesh(&stable, &canary));
    let proxy = file.start().await;
    fetch(&proxy, "http://web/").await;
    for _ in 0..2 {
        let (status, document) = explain(&proxy, "url=http://web-stable/").await;
        assert_eq!(status, 404, "{document:#}");
        assert_eq!(document["known_targets"], json!(["web:80"]));
    }
    let targets = proxy.admin.state().await["policies"]["size"].clone();
    assert_eq!(targets, 1);

    // Unless the query asks for it.
    let (status, document) = explain(&proxy, "url=http://web-stable/&discover=1").await;
    assert_eq!(status, 200, "{document:#}");
    assert_eq!(document["target"], "web-stable:80");
    assert!(!document["route"].is_null(), "{document:#}");
    let (status, document) = explain(&proxy, "url=http://wob/&discover=1").await;
    let refused = document["refused"].as_str().unwrap_or_default();
    assert!(
        status == 200 && refused.contains("no service at wob:80"),
        "{document:#}"
    );
    let (status, _) = explain(&proxy, "url=http://web/&discover=x").await;
    assert_eq!(status, 400);
    assert_eq!(stable.requests() + canary.requests(), 1);

    fetch(&proxy, "http://nobody/").await;
    let (status, document) = explain(&proxy, "url=http://nobody/").await;
    assert_eq!((status, &document["route"]), (200, &Value::Null));
    let refused = document["refused"].as_str().unwrap();
    assert!(refused.contains("no service at nobody:80"), "{refused}");
}

#[tokio::test]
async fn bad_queries_name_the_parameter_and_the_fix() {
    let (stable, canary) = (Server::says("stable").await, Server::says("canary").await);
    let file = MeshFile::new("explain-bad", &mesh(&stable, &canary));
    let proxy = file.start().await;
    let (status, document) = explain(&proxy, "url=https://web/").await;
    assert_eq!(status, 400);
    let error = document["error"].as_str().unwrap();
    assert!(
        error.starts_with("url: ") && error.contains("http://"),
        "{error}"
    );
    let body = r#"{"url": "http://web/", "method": "NO METHOD"}"#;
    let reply = proxy.admin.request(Method::POST, "/explain", body).await;
    assert_eq!(reply.status, 400);
    assert!(reply.text().contains("method"), "{}", reply.text());
}

/// The exit code of the command, and its output.
fn command(args: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(binary())
        .arg("explain")
        .args(args)
        .output()
        .unwrap();
    let printed = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(printed).unwrap())
}

#[tokio::test]
async fn the_command_prints_what_a_running_proxy_or_a_mesh_file_says() {
    let (stable, canary) = (Server::says("stable").await, Server::says("canary").await);
    let file = MeshFile::new("explain-command", &mesh(&stable, &canary));
    let proxy = file.start().await;
    fetch(&proxy, "http://web/").await;
    let admin = proxy.admin.addr.to_string();
    let mesh = file.path().to_str().unwrap();
    for source in [["--admin", &admin], ["--mesh", mesh]] {
        let args = ["GET", "http://web/pay", "-H", "x-version: 1"];
        let (code, printed) = command(&[&args[..], &source].concat());
        assert_eq!(code, Some(0), "{printed}");
        for part in [
            "target   web:80, protocol ",
            "routed   by the policy: ",
            "(rule 1): path /pay or below\n",
            "filter   fails 100 % of requests with status 503: on purpose\n",
            "(rule 0): header x-version must be \"2\", and is \"1\"\n",
            "(rule 2): it matches, but the rule that takes the request has a longer path\n",
        ] {
            assert!(printed.contains(part), "{part} in {printed}");
        }
        let (code, printed) = command(&[&["GET", "http://wep/"], &source[..]].concat());
        assert_eq!(code, Some(1), "{printed}");
        // A running proxy asks its control plane, which lists its services.
        let known = [
            "known targets: web:80",
            "no service at wep:80; the services: web:80",
        ];
        assert!(
            known.iter().any(|known| printed.contains(known)),
            "{printed}"
        );
        let (code, printed) = command(&[&["GET", "https://web/"], &source[..]].concat());
        assert_eq!(code, Some(64), "{printed}");
        assert!(printed.contains("url: its scheme is not http"), "{printed}");
    }
    let (code, printed) = command(&["GET", "http://web/", "--mesh", mesh, "--json"]);
    let document: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((code, &document["route"]["rule"]), (Some(0), &json!(2)));
    let (code, printed) = command(&["GET"]);
    assert_eq!(code, Some(64), "{printed}");
    let (code, printed) = command(&["GET", "http://web/", "--mesh", "/nowhere.yaml"]);
    assert_eq!(code, Some(64), "{printed}");
    let (code, printed) = command(&["GET", "http://web/", "--admin", "127.0.0.1:1"]);
    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.contains("--mesh"), "{printed}");
}

#[tokio::test]
async fn the_command_prints_who_is_let_in() {
    let (stable, canary) = (Server::says("stable").await, Server::says("canary").await);
    let file = MeshFile::new("explain-inbound", &mesh(&stable, &canary));
    let proxy = file.start().await;
    let admin = proxy.admin.addr.to_string();
    let client = ["--client", "10.0.0.7", "--admin", &admin];
    let (code, printed) = command(&[&["--port", "8080"], &client[..]].concat());
    assert_eq!(code, Some(0), "{printed}");
    for part in [
        "client   10.0.0.7 (no TLS of the mesh)\n",
        "let in   by default/all-unauthenticated\n",
    ] {
        assert!(printed.contains(part), "{part} in {printed}");
    }
    let (code, printed) = command(&[&["--port", "0"], &client[..]].concat());
    assert_eq!(code, Some(64), "{printed}");
    let (code, printed) = command(&["--port", "80"]);
    assert_eq!(code, Some(64), "{printed}");
}

#[tokio::test]
async fn a_reader_that_has_read_enough_is_no_failure_of_the_command() {
    let server = Server::says("hello").await;
    let file = MeshFile::new("explain-pipe", &mesh(&server, &server));
    let proxy = file.start().await;
    fetch(&proxy, "http://web/").await;
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let admin = proxy.admin.addr.to_string();
    let arguments = ["explain", "--admin", &admin, "GET", "http://web/"];
    let output = Command::new(binary())
        .args(arguments)
        .stdout(writer)
        .output();
    let output = output.unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{error}");
    assert!(error.is_empty(), "{error}");
}
