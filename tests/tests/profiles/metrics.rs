//! Metrics of routes.

use crate::{DST, NAME, Profiled, named, profile};
use linkerd_control::{Profile, ProfileMatch, ProfileRoute};
use linkerd_tests::{Mesh, SOON, eventually};

#[tokio::test]
async fn requests_and_responses_have_the_labels_of_their_route() {
    let books = ProfileRoute::new(ProfileMatch::path("/books"))
        .label("route", "GET /books")
        .label("team", "\"shop\"\\")
        .label("a.b/c", "made valid");
    let profiled = Profiled::with([books]).await;
    for _ in 0..3 {
        profiled.get("/books").await;
    }
    profiled.send("GET", "/books", &[("x-status", "503")]).await;
    profiled.get("/other").await;

    let metrics = profiled.mesh.proxy.metrics().await;
    let books = [
        ("direction", "outbound"),
        ("dst", DST),
        ("rt_route", "GET /books"),
        ("rt_team", "\"shop\"\\"),
        ("rt_a_b_c", "made valid"),
    ];
    for name in ["route_request_total", "route_actual_request_total"] {
        assert_eq!(metrics.value(name, &books), Some(4.0), "{name}");
        assert_eq!(metrics.sum(name, &[("dst", DST)]), 5.0, "{name}");
        assert_eq!(metrics.count(name, &[("dst", DST)]), 2, "{name}");
    }
    for name in ["route_response_total", "route_actual_response_total"] {
        for (status, class, count) in [("200", "success", 3.0), ("503", "failure", 1.0)] {
            let more = [
                ("status_code", status),
                ("classification", class),
                ("grpc_status", ""),
                ("error", ""),
            ];
            let labels = [&books[..], &more].concat();
            assert_eq!(metrics.value(name, &labels), Some(count), "{name} {status}");
        }
    }
    let latency = "route_response_latency_ms_count";
    let ok = [&books[..], &[("status_code", "200")]].concat();
    assert_eq!(metrics.value(latency, &ok), Some(3.0));
    assert_eq!(
        metrics.count("route_actual_response_latency_ms_count", &[]),
        0
    );
    // A request without a route has no route labels.
    let line = format!("route_request_total{{direction=\"outbound\",dst=\"{DST}\"}} 1");
    assert!(metrics.text().lines().any(|found| found == line), "{line}");
}

#[tokio::test]
async fn a_profile_of_targets_alone_counts_too_and_a_policy_does_not() {
    let profiled = Profiled::start(Profile::new(NAME).target(DST, 1)).await;
    profiled.get("/").await;
    profiled.mesh.get("http://web/").await;
    let metrics = profiled.mesh.proxy.metrics().await;
    assert_eq!(metrics.sum("route_request_total", &[]), 1.0);
    assert_eq!(metrics.sum("route_request_total", &[("dst", DST)]), 1.0);
    assert_eq!(
        metrics.sum("request_total", &[("direction", "outbound")]),
        2.0
    );
}

#[tokio::test]
async fn series_leave_with_their_route() {
    let retain = Mesh::builder().env("LINKERD2_PROXY_METRICS_RETAIN_IDLE", "0s");
    let route = |name| profile([named(name, ProfileMatch::path("/"))]);
    let profiled = Profiled::build(retain, route("old")).await;
    profiled.get("/").await;
    assert_eq!(profiled.requests("old").await, 1.0);
    profiled.profile().set(route("new"));
    eventually(SOON, "the series of the old route is gone", || async {
        profiled.get("/").await;
        let metrics = profiled.mesh.proxy.metrics().await;
        let of = |name| metrics.count("route_request_total", &[("rt_route", name)]);
        (of("old") == 0 && of("new") == 1).then_some(())
    })
    .await;
}
