//! The document of `/state`: each bound of ARCHITECTURE.md has its place, each section its line in the documentation, and the
//! shutdown shows what is still open.

use linkerd_control::{Endpoint, EndpointSet, Policy};
use linkerd_tests::{Collector, Mesh, Meshed, Proxy, SOON, Server, eventually};
use serde_json::Value;
use std::{collections::BTreeSet, fs};

fn document(path: &str) -> String {
    let path = format!("{}/../{path}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(path).unwrap()
}

/// The texts between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The paths of the last column of the table of bounds.
fn paths_of_bounds(architecture: &str) -> Vec<&str> {
    let (_, bounds) = architecture.split_once("\n## Bounds\n").unwrap();
    let (table, _) = bounds.split_once("\n## ").unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| "));
    let places = rows.skip(1).map(|row| {
        let place = row.trim_end_matches('|').rsplit(" | ").next().unwrap();
        assert!(
            place.trim() == "–" || place.contains('`'),
            "no place in {row}"
        );
        place
    });
    places.flat_map(quoted).collect()
}

/// Whether a path leads to a field, which may be null; within a list, one element suffices.
fn has(value: &Value, path: &str) -> bool {
    let (field, rest) = path.split_once('.').unwrap_or((path, ""));
    let name = field.trim_end_matches("[]");
    let Some(next) = value.get(name) else {
        return false;
    };
    match (rest, field == name) {
        ("", true) => true,
        (rest, true) => has(next, rest),
        (rest, false) => {
            let mut elements = next.as_array().into_iter().flatten();
            elements.any(|element| rest.is_empty() || has(element, rest))
        }
    }
}

/// A proxy with all optional features, after requests to an HTTP/1 and an HTTP/2 endpoint.
async fn busy(server: &Server, collector: &Collector) -> Meshed {
    let mesh = Meshed::start(
        |web| {
            web.env("LINKERD2_PROXY_TRACE_COLLECTOR_SVC_ADDR", collector.addr())
                .env("LINKERD_PROXY_ACCESS_LOG_FORMAT", "full")
                .env("LINKERD_PROXY_OUTBOUND_HEDGE_PERCENTILE", "0.95")
        },
        |api| api,
    )
    .await;
    mesh.serve_api(server.addr(), Endpoint::h2);
    mesh.controller
        .policy("plain:80")
        .set(Policy::balance("plain", 80));
    let plain = EndpointSet::new([Endpoint::new(server.addr())]);
    let name = "plain.default.svc.cluster.local:80";
    mesh.controller.destination(name).set(plain);
    let mut client = mesh.http1().await;
    for url in ["http://api/", "http://plain/"] {
        assert_eq!(client.get(url).await.unwrap().status, 200, "{url}");
    }
    mesh
}

#[tokio::test]
async fn each_bound_has_its_place_in_the_state() {
    let (server, collector) = (Server::says("hello").await, Collector::start().await);
    let mesh = busy(&server, &collector).await;
    let state = mesh.web.admin.state().await;
    let architecture = document("ARCHITECTURE.md");
    let paths = paths_of_bounds(&architecture);
    assert!(paths.len() > 40, "{paths:?}");
    let missing: Vec<_> = paths.iter().filter(|path| !has(&state, path)).collect();
    assert!(missing.is_empty(), "{state:#}\nlacks {missing:#?}");
}

#[tokio::test]
async fn each_section_of_the_state_is_documented() {
    let (server, collector) = (Server::says("hello").await, Collector::start().await);
    let mesh = busy(&server, &collector).await;
    let state = mesh.web.admin.state().await;
    let sections: BTreeSet<_> = state.as_object().unwrap().keys().map(|it| &**it).collect();
    let operations = document("docs/operations.md");
    let (_, list) = operations.split_once("`/state` has\n").unwrap();
    let (list, _) = list.split_once("\nA query chooses sections").unwrap();
    let listed = list.lines().filter(|line| line.starts_with("- "));
    let listed = listed.filter_map(|line| line.split(": ").next());
    let listed: BTreeSet<_> = listed.flat_map(quoted).collect();
    assert_eq!(listed, sections);
}

#[tokio::test]
async fn the_state_tells_a_shutdown_and_what_is_still_open() {
    let controller = linkerd_control::Controller::new();
    let control = controller.spawn().await.unwrap();
    let proxy = Proxy::builder(control.addr())
        .env("LINKERD_PROXY_SHUTDOWN_WINDOW", "60s")
        .start()
        .await;
    let drain = || async { proxy.admin.state().await["drain"].clone() };
    let serving = drain().await;
    assert_eq!(serving["state"], "serving");
    assert_eq!(serving["window_ms"], 60_000);
    let _client = tokio::net::TcpStream::connect(proxy.outbound)
        .await
        .unwrap();
    let outbound = proxy.outbound.to_string();
    eventually(SOON, "the connection is counted", || async {
        let drain = drain().await;
        let listeners = drain["listeners"].as_array().unwrap();
        let outbound = listeners
            .iter()
            .find(|it| it["address"] == *outbound)
            .unwrap();
        (outbound["connections"] == 1 && outbound["draining"] == false).then_some(())
    })
    .await;
    proxy.terminate();
    eventually(SOON, "it leaves", || async {
        (drain().await["state"] == "leaving").then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_first_failure_of_a_proxy_names_its_request() {
    let mesh = Mesh::builder().start().await;
    assert_eq!(mesh.get("http://nowhere/pay?card=4111").await.status, 502);
    let failures = mesh.proxy.admin.state().await["failures"].take();
    let first = &failures["last"][0];
    assert_eq!(first["destination"], "nowhere", "{failures:#}");
    assert_eq!(first["path"], "/pay", "{failures:#}");
}
