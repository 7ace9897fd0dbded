//! Bounds on series: for names from clients, and for endpoints that come and go.

use http::Response;
use linkerd_control::{
    Authorization, EndpointSet, Policy, Route, RouteMatch, RouteRule, ServerPolicy,
};
use linkerd_tests::{
    Load, Mesh, Metrics, SOON, Server, Tcp, Wire, empty, eventually,
    netns::{POD, Pod, isolated},
    reply,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

#[test]
fn hosts_and_paths_of_clients_of_an_inbound_port_add_no_series() {
    isolated(
        "budgets::hosts_and_paths_of_clients_of_an_inbound_port_add_no_series",
        async {
            // The proxy opens a connection to the application for each host; each one takes a port for a minute.
            std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", "1024 65535").unwrap();
            let application = Tcp::start_at(SocketAddr::from((POD, 0)), answer_all).await;
            let port = application.addr().port();
            let pod = Pod::start(|proxy| proxy.env("LINKERD2_PROXY_INBOUND_PORTS", port)).await;
            let policy = ServerPolicy::new("app").authorize(Authorization::all("all"));
            pod.controller.server(port).set(policy);
            let wire = || Wire::connect(application.addr());
            let allow = "inbound_http_authz_allow_total";
            eventually(SOON, "the policy", || async {
                named_requests(&mut wire().await, 0..1).await;
                let metrics = pod.proxy.metrics().await;
                (metrics.sum(allow, &[("srv_name", "app")]) >= 1.0).then_some(())
            })
            .await;
            named_requests(&mut wire().await, 0..BATCH).await;
            let before = series(&pod.proxy.metrics().await);
            named_requests(&mut wire().await, 0..REQUESTS).await;
            let metrics = pod.proxy.metrics().await;
            assert!(metrics.sum("request_total", &[]) >= REQUESTS as f64);
            assert_added(&before, &series(&metrics), CONNECTION_ENDS);
        },
    );
}

#[tokio::test]
async fn hosts_and_paths_of_an_outbound_target_add_bounded_series() {
    let web = Tcp::start(answer_all).await;
    let name = "LINKERD2_PROXY_OUTBOUND_METRICS_HOSTNAME_LABELS";
    let mesh = Mesh::builder().env(name, true).start().await;
    mesh.service("web", [web.addr()]);
    let rule = RouteRule::new().when(RouteMatch::prefix("/"));
    let policy = Policy::balance("web", 80).route(Route::new("main").rule(rule));
    mesh.policy("web").set(policy);
    let mut wire = Wire::tunnel(mesh.proxy.outbound, "web:80").await;
    named_requests(&mut wire, 0..1).await;
    let before = series(&mesh.proxy.metrics().await);
    named_requests(&mut wire, 0..REQUESTS).await;
    let metrics = mesh.proxy.metrics().await;
    assert!(metrics.sum("request_total", &[]) >= REQUESTS as f64);
    assert_added(&before, &series(&metrics), HOSTNAMES);
    let statuses = "outbound_http_route_request_statuses_total";
    assert!(metrics.count(statuses, &[]) > 50, "host names are labels");
}

#[tokio::test]
async fn requests_beyond_the_limit_of_a_family_are_counted_as_other() {
    let web = Server::start(|request| async move {
        let status = request.uri().path()[1..].parse::<u16>().unwrap();
        Ok(Response::builder().status(status).body(empty()).unwrap())
    })
    .await;
    let name = "LINKERD2_PROXY_OUTBOUND_METRICS_HOSTNAME_LABELS";
    let mesh = Mesh::builder().env(name, true).start().await;
    mesh.service("web", [web.addr()]);
    let mut wire = Wire::tunnel(mesh.proxy.outbound, "web:80").await;
    // Each pair of a host and a status is a series. These statuses have bodies, of no bytes.
    let statuses: Vec<_> = (400..800).collect();
    for host in 0..60 {
        let requests = statuses
            .iter()
            .map(|status| format!("GET /{status} HTTP/1.1\r\nhost: h{host}.test\r\n\r\n"));
        wire.send(requests.collect::<String>()).await;
        for status in &statuses {
            let (head, _) = wire.response().await;
            assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}");
        }
    }
    let sent = 60 * statuses.len();
    let metrics = mesh.proxy.metrics().await;
    let family = "outbound_http_route_request_statuses_total";
    assert_eq!(metrics.sum(family, &[]), sent as f64, "none is missing");
    assert_eq!(metrics.count(family, &[]), SERIES_LIMIT + 1);
    let labels = [
        "parent_name",
        "route_name",
        "hostname",
        "http_status",
        "error",
    ];
    let other = metrics.value(family, &labels.map(|name| (name, "other")));
    let beyond = sent - SERIES_LIMIT;
    assert_eq!(other, Some(beyond as f64));
    let refused = "proxy_metrics_series_refused_total";
    let refused = metrics.value(refused, &[("family", family)]);
    assert_eq!(refused, Some(beyond as f64));
    let state = mesh.proxy.admin.state().await;
    let sizes = state["metrics"].as_array().unwrap();
    let size = sizes.iter().find(|size| size["family"] == family).unwrap();
    assert_eq!(size["series"], SERIES_LIMIT);
    assert_eq!(
        (&size["limit"], &size["refused"]),
        (&size["series"], &beyond.into())
    );
}

#[tokio::test]
async fn targets_that_clients_of_an_explicit_proxy_name_leave_no_series() {
    let web = Tcp::start(answer_all).await;
    let builder = Mesh::builder().env("LINKERD2_PROXY_METRICS_RETAIN_IDLE", "0s");
    let builder = builder.env("LINKERD2_PROXY_OUTBOUND_DISCOVERY_IDLE_TIMEOUT", "1s");
    let mesh = builder.start().await;
    mesh.service("web", [web.addr()]);
    let rule = RouteRule::new().when(RouteMatch::prefix("/"));
    let policy = Policy::balance("web", 80).route(Route::new("main").rule(rule));
    mesh.controller.any_policy().set(policy);
    let mut wire = mesh.wire().await;
    named_requests(&mut wire, 0..1).await;
    let before = series(&mesh.proxy.metrics().await);
    named_requests(&mut wire, 0..TARGETS).await;
    for (family, count) in series(&mesh.proxy.metrics().await) {
        assert!(count <= SERIES_LIMIT, "{count} series of {family}");
    }
    eventually(SOON, "series of idle targets are gone", || async {
        let after = series(&mesh.proxy.metrics().await);
        let most = before.values().max()? + CONNECTION_ENDS;
        after.values().all(|count| *count <= most).then_some(())
    })
    .await;
}

#[tokio::test]
async fn endpoints_that_are_gone_leave_no_series_and_no_memory() {
    let builder = Server::builder().at("0.0.0.0:0".parse().unwrap());
    let many = builder.start(|_| async { reply("hello") }).await;
    let port = many.addr().port();
    let endpoint = |n: usize| {
        let [.., b, c] = (n + 257).to_be_bytes();
        SocketAddr::from(([127, 1, b, c], port))
    };
    let retain = Mesh::builder().env("LINKERD2_PROXY_METRICS_RETAIN_IDLE", "0s");
    let mesh = retain.start().await;
    let last = SocketAddr::from(([127, 0, 0, 1], port));
    let web = mesh.service("web", [last]);
    mesh.get("http://web/").await;
    let before = mesh.proxy.rss();
    let mut seen = 0;
    let load = Load::http1(&mesh, 4, Duration::ZERO, "http://web/");
    for round in 0..ENDPOINTS / ROUND {
        let endpoints = (round * ROUND..(round + 1) * ROUND).map(endpoint);
        web.set(EndpointSet::new(endpoints.clone()));
        seen += eventually(SOON, "most endpoints of a round have series", || async {
            load.more(ROUND / 4).await;
            let known = targets(&mesh.proxy.metrics().await);
            let new = endpoints.clone();
            let new = new.filter(|addr| known.contains(&addr.to_string()));
            Some(new.count()).filter(|count| *count > ROUND / 2)
        })
        .await;
    }
    load.stop().await.assert_clean();
    assert!(seen > ENDPOINTS / 2, "{seen}");
    web.set(EndpointSet::new([last]));
    eventually(SOON, "series of the last endpoint alone", || async {
        mesh.get("http://web/").await;
        let left = targets(&mesh.proxy.metrics().await);
        (left == BTreeSet::from([last.to_string()])).then_some(())
    })
    .await;
    eventually(SOON, "memory is given back", || async {
        (mesh.proxy.rss() < before + SPARE_MEMORY).then_some(())
    })
    .await;
}

#[tokio::test]
async fn endpoints_share_the_labels_of_their_set_and_long_ones_are_cut() {
    let server = Server::says("hello").await;
    let mesh = Mesh::start().await;
    let web = mesh.service("web", [server.addr()]);
    mesh.get("http://web/").await;
    let before = mesh.proxy.rss();
    let others = (0..3_000_u16).map(|n| SocketAddr::from(([127, 2, 0, 1], 10_000 + n)));
    let endpoints = EndpointSet::new(others.chain([server.addr()]));
    web.set(endpoints.labels([("team", "x".repeat(50_000))]));
    let state = eventually(SOON, "the endpoints are known", || async {
        mesh.get("http://web/").await;
        let state = mesh.proxy.admin.state().await.to_string();
        state.contains(":12999").then_some(state)
    })
    .await;
    assert!(state.contains(&"x".repeat(1024)) && !state.contains(&"x".repeat(1025)));
    let grown = mesh.proxy.rss().saturating_sub(before) >> 20;
    assert!(grown < 100, "{grown} MB");
}

/// Addresses of the endpoints that have series.
fn targets(metrics: &Metrics) -> BTreeSet<String> {
    let samples = metrics.samples().filter(|(_, labels)| {
        let has = |name: &str, value: &str| labels.iter().any(|(n, v)| n == name && v == value);
        has("direction", "outbound") && !has("peer", "src")
    });
    let targets = samples.flat_map(|(_, labels)| labels.iter());
    let targets = targets.filter(|(name, _)| name == "target_addr");
    targets.map(|(_, value)| value.clone()).collect()
}

/// Number of series by family; the buckets of a histogram do not count.
fn series(metrics: &Metrics) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for (name, labels) in metrics.samples() {
        if labels.iter().all(|(name, _)| name != "le") {
            *counts.entry(name.to_owned()).or_default() += 1;
        }
    }
    counts
}

#[track_caller]
fn assert_added(before: &BTreeMap<String, usize>, after: &BTreeMap<String, usize>, most: usize) {
    for (family, count) in after {
        let old = before.get(family).copied().unwrap_or_default();
        assert!(*count <= old + most, "{family}: {old} series, then {count}");
    }
}

/// Sends requests in batches, each with a different host and path.
async fn named_requests(wire: &mut Wire, numbers: std::ops::Range<usize>) {
    for first in numbers.clone().step_by(BATCH) {
        let batch = first..numbers.end.min(first + BATCH);
        let requests = batch.clone().map(|n| {
            let scattered = n.wrapping_mul(0x9e37_79b9) & 0xffff_ffff;
            format!("GET /{scattered:x}/{n} HTTP/1.1\r\nhost: h{n}-{scattered:x}.test\r\n\r\n")
        });
        wire.send(requests.collect::<String>()).await;
        for _ in batch {
            let (head, _) = wire.response().await;
            assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        }
    }
}

/// Answers each request head with 200.
async fn answer_all(mut socket: TcpStream) {
    let mut read = Vec::new();
    while matches!(socket.read_buf(&mut read).await, Ok(1..)) {
        while let Some(end) = read.windows(4).position(|end| end == b"\r\n\r\n") {
            read.drain(..end + 4);
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
            if socket.write_all(answer).await.is_err() {
                return;
            }
        }
    }
}

/// Requests to an inbound port and to an outbound target, each with a different host.
const REQUESTS: usize = 48_000;
/// Targets to look up, one for each request.
const TARGETS: usize = 4_000;
/// Most series of a family, as in docs/metrics.md.
const SERIES_LIMIT: usize = 20_000;
/// Requests that are sent before their responses are read.
const BATCH: usize = 200;
/// Series that a family may gain when earlier connections end.
const CONNECTION_ENDS: usize = 2;
/// Most host names in labels: 100, and one for all others.
const HOSTNAMES: usize = 101;
/// Endpoints in total, and in each round.
const ENDPOINTS: usize = 10_000;
const ROUND: usize = 1_000;
/// Memory that the allocator may keep: a fraction of what 10,000 endpoints take.
const SPARE_MEMORY: u64 = 24 << 20;
