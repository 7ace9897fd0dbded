//! The console's sections in a real browser: filters in an explanation, rates, the filter box, folding, links to failures.

use crate::browser::{BEYOND_THE_EDGE, answer, open_console};
use linkerd_api_proto::http_route::RequestRedirect;
use linkerd_control::{Policy, Route, RouteFilter, RouteMatch, RouteRule};
use linkerd_tests::{Browser, CHROMIUM, Load, Mesh, SOON, Server, eventually, is_installed};
use serde_json::Value;
use std::time::Duration;

/// A proxy with a service `web`, whose rules fail, redirect, change and pass requests, and a browser with its console. `None`
/// without the program.
async fn web() -> Option<(Mesh, Server, Browser)> {
    if !is_installed("chromium", CHROMIUM) {
        return None;
    }
    let server = Server::says("hello").await;
    // A long value, which leaves the other columns of the configuration little room.
    let ports: Vec<_> = (20_000..20_060).map(|port| port.to_string()).collect();
    let name = "LINKERD2_PROXY_INBOUND_PORTS_DISABLE_PROTOCOL_DETECTION";
    let mesh = Mesh::builder().env(name, ports.join(",")).start().await;
    mesh.service("web", [server.addr()]);
    let rule = |path: &str| RouteRule::new().when(RouteMatch::prefix(path));
    let fails = || RouteFilter::fail(503, "on purpose");
    let redirect = RequestRedirect {
        status: 302,
        host: "elsewhere".into(),
        ..Default::default()
    };
    let rules = [
        rule("/fail").filter(fails()),
        rule("/some").filter(fails().ratio(1, 4)),
        rule("/away").filter(RouteFilter::Redirect(redirect)),
        rule("/backend").backend_filter(fails()),
        RouteRule::new(),
    ];
    let route = rules.into_iter().fold(Route::new("web"), Route::rule);
    mesh.policy("web")
        .set(Policy::balance("web", 80).route(route));
    let mut browser = Browser::start().await;
    browser.show(1280, false).await;
    open_console(&mut browser, &mesh.proxy).await;
    Some((mesh, server, browser))
}

#[tokio::test]
async fn explain_shows_filters_and_calls_no_rule_good_that_fails_on_purpose() {
    let Some((mesh, _server, mut browser)) = web().await else {
        return;
    };
    for (path, kind, said) in [
        ("/", "good", ""),
        (
            "/fail",
            "bad",
            "A filter of the rule fails 100.0 % of the requests on purpose.",
        ),
        (
            "/some",
            "warn",
            "A filter of the rule fails 25.0 % of the requests on purpose.",
        ),
        (
            "/away",
            "warn",
            "A filter redirects the client: no backend gets the request.",
        ),
        (
            "/backend",
            "warn",
            "A filter of Service.default.web:80 fails 100.0 % of the requests on purpose.",
        ),
    ] {
        open_console(&mut browser, &mesh.proxy).await;
        let fill = format!(
            "document.querySelector('#explain-form [name=url]').value = 'http://web{path}'"
        );
        browser.value(&fill).await;
        browser
            .value("document.querySelector('#explain-form button').click()")
            .await;
        let told = answer(&mut browser).await;
        assert!(told.contains(said), "{path}: {told}");
        let class = "document.querySelector('#explain-answer p').className";
        assert_eq!(browser.value(class).await, kind, "{path}: {told}");
        let filters = browser
            .value("document.querySelector('#explain-answer .filters')?.textContent ?? ''")
            .await;
        let text = filters.as_str().unwrap();
        match path {
            "/" => assert_eq!(text, ""),
            "/away" => assert!(
                text.contains("redirects with 302 to host elsewhere"),
                "{text}"
            ),
            _ => assert!(
                text.contains("% of requests with status 503: on purpose"),
                "{text}"
            ),
        }
    }
    assert_eq!(browser.errors(), [""; 0]);
}

#[tokio::test]
async fn routes_and_endpoints_have_a_rate_success_and_latency() {
    let Some((mesh, server, mut browser)) = web().await else {
        return;
    };
    let pause = Duration::from_millis(10);
    let _good = Load::http1(&mesh, 1, pause, "http://web/");
    let _bad = Load::http1(&mesh, 1, pause, "http://web/fail");
    let row = |part: &str, name: &str| {
        format!(
            "[...document.querySelectorAll('#{part} tbody tr')].find((row) => row.firstChild.textContent.includes('{name}'))"
        )
    };
    let route = row("routes-body", "HTTPRoute.default.web");
    let endpoint = row("topology-body", &server.addr().to_string());
    // Both halves are seen: half of the requests fail in the route, none at the endpoint.
    let share = format!(
        "(() => {{ const found = parseFloat({route}?.children[3].textContent); return found > 20 && found < 80; }})()"
    );
    browser.wait_for(&share).await;
    for (cell, unit) in [(2, "/s"), (4, "ms"), (5, "ms")] {
        let text = browser
            .value(&format!("{route}.children[{cell}].textContent"))
            .await;
        assert!(text.as_str().unwrap().ends_with(unit), "{cell}: {text}");
    }
    let text = format!("{endpoint}?.children[3].textContent");
    browser
        .wait_for(&format!(
            "/^[1-9].*\\/s, 100.0 %p50 .*ms, p95 .*ms$/.test({text})"
        ))
        .await;
}

#[tokio::test]
async fn series_are_read_by_route_and_endpoint() {
    let Some((_mesh, _server, mut browser)) = web().await else {
        return;
    };
    // An endpoint counts responses of all its services. A profile's route and an inbound one have names of their own.
    let metrics = r#"response_total{direction="outbound",authority="a",target_addr="10.0.0.1:80",classification="success",grpc_status="",error=""} 3
response_total{direction="outbound",authority="b",target_addr="10.0.0.1:80",classification="failure",grpc_status="",error=""} 2
response_latency_ms_bucket{direction="outbound",target_addr="10.0.0.1:80",status_code="200",le="1"} 4
response_latency_ms_bucket{direction="outbound",target_addr="10.0.0.1:80",status_code="200",le="+Inf"} 5
outbound_grpc_route_request_statuses_total{parent_kind="Service",parent_namespace="ns",parent_name="web",parent_port="80",route_kind="GRPCRoute",route_namespace="ns",route_name="r",grpc_status="UNAVAILABLE",error=""} 7
outbound_grpc_route_request_duration_seconds_sum{parent_kind="Service",parent_namespace="ns",parent_name="web",parent_port="80",route_kind="GRPCRoute",route_namespace="ns",route_name="r"} 1.5
route_response_total{direction="outbound",dst="web:80",rt_route="GET /",classification="success",status_code="200"} 9
response_total{direction="inbound",target_port="8080",route_kind="default",route_name="probe",classification="success"} 4
"#;
    let read = format!(
        "import('/console/series.js').then((it) => [...it.readSeries({metrics:?})].map(([key, one]) => [key, one.ok, one.failed, one.sum, one.buckets['1'] ?? 0]))"
    );
    let read = browser.value(&read).await;
    let expected = serde_json::json!([
        ["endpoint 10.0.0.1:80", 3, 2, 0, 4],
        ["route Service.ns.web:80 GRPCRoute.ns.r", 0, 7, 1500, 0],
        ["profile outboundweb:80GET /", 9, 0, 0, 0],
        ["inbound port 8080 default.probe", 4, 0, 0, 0],
    ]);
    assert_eq!(read, expected);
}

#[tokio::test]
async fn a_link_to_a_failure_opens_its_section_and_shows_it() {
    let Some((mesh, _server, mut browser)) = web().await else {
        return;
    };
    mesh.get("http://web/fail").await;
    mesh.get("http://nowhere/").await;
    let link = "[...document.querySelectorAll('#failures-body tr')].find((row) => row.textContent.includes('injected_failure'))?.querySelector('a')";
    browser.wait_for(link).await;
    let hash = browser.value(&format!("{link}.getAttribute('href')")).await;
    let hash = hash.as_str().unwrap().to_owned();
    assert!(hash.starts_with("#failure-"), "{hash}");
    // The section is folded, and stays so over a reload; a link opens it.
    browser
        .value("document.querySelector('#failures summary').click()")
        .await;
    let stored =
        "(localStorage.getItem('linkerd-proxy-console-folded') ?? '').includes('failures')";
    browser.wait_for(stored).await;
    open_console(&mut browser, &mesh.proxy).await;
    let is_open = "document.querySelector('#failures > details').open";
    assert_eq!(browser.value(is_open).await, false);
    browser
        .value("document.getElementById('filter').value = 'nothing'")
        .await;
    browser.value(&format!("location.hash = '{hash}'")).await;
    let linked = "document.querySelector('tr.linked')";
    browser.wait_for(linked).await;
    let text = browser.value(&format!("{linked}.textContent")).await;
    assert!(text.as_str().unwrap().contains("on purpose"), "{text}");
    browser.wait_for(&format!("(() => {{ const at = {linked}.getBoundingClientRect(); return at.top >= 0 && at.bottom <= innerHeight; }})()")).await;
    assert_eq!(browser.value(is_open).await, true);
    // The page of the link, and a link to a failure that has left.
    let page = format!("http://{}/console{hash}", mesh.proxy.admin.addr);
    browser.open("about:blank").await;
    browser.open(&page).await;
    browser.wait_for(linked).await;
    browser.value("location.hash = '#failure-1-1'").await;
    browser.wait_for("document.getElementById('failures-body').textContent.includes('failure 1-1 of the link is not kept')").await;
    assert_eq!(browser.errors(), [""; 0]);
}

#[tokio::test]
async fn one_filter_box_leaves_the_rows_with_its_words() {
    let Some((mesh, server, mut browser)) = web().await else {
        return;
    };
    mesh.get("http://web/").await;
    mesh.get("http://web/fail").await;
    mesh.get("http://nowhere/").await;
    browser
        .wait_for("document.querySelectorAll('#failures-body tbody tr').length === 2")
        .await;
    browser
        .value("document.getElementById('filter').focus()")
        .await;
    browser.write("NOWHERE").await;
    let rows = "[...document.querySelectorAll('main tbody tr, main li')].filter((row) => row.checkVisibility()).map((row) => row.textContent)";
    let shown = browser.value(rows).await;
    let shown = shown.as_array().unwrap();
    assert!(!shown.is_empty());
    for row in shown {
        assert!(row.as_str().unwrap().contains("nowhere"), "{row}");
    }
    let status = browser
        .value("document.getElementById('filter-status').textContent")
        .await;
    let expected = format!("{} of ", shown.len());
    assert!(status.as_str().unwrap().starts_with(&expected), "{status}");
    // A heading that matches keeps all that belongs to it.
    browser.value("(() => { const box = document.getElementById('filter'); box.value = 'service.default.web'; box.dispatchEvent(new Event('input')); })()").await;
    let found = format!(
        "({rows}).some((row) => row.startsWith('{}'))",
        server.addr()
    );
    assert_eq!(browser.value(&found).await, true);
    // It lasts over polls.
    let updated = browser
        .value("document.getElementById('status').textContent")
        .await;
    let later = format!("document.getElementById('status').textContent !== {updated}");
    browser.wait_for(&later).await;
    let others = format!("({rows}).some((row) => row.includes('nowhere'))");
    assert_eq!(browser.value(&others).await, false);
}

#[tokio::test]
async fn no_short_word_of_a_table_is_broken() {
    let Some((mesh, _server, mut browser)) = web().await else {
        return;
    };
    mesh.get("http://web/fail").await;
    eventually(SOON, "a failure", || async {
        let state = mesh.proxy.admin.get("/state?failures").await;
        state.text().contains("injected_failure").then_some(())
    })
    .await;
    for width in [375, 900, 1100, 1280] {
        browser.show(width, false).await;
        open_console(&mut browser, &mesh.proxy).await;
        browser
            .value("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
            .await;
        assert_eq!(
            browser.value(BROKEN_WORDS).await,
            Value::Array(Vec::new()),
            "{width} px"
        );
        assert_eq!(
            browser.value(BEYOND_THE_EDGE).await,
            Value::Array(Vec::new()),
            "{width} px"
        );
    }
}

/// Plain words of tables that stand on two lines.
const BROKEN_WORDS: &str = r#"(() => {
    const broken = [];
    for (const cell of document.querySelectorAll("td, tbody th")) {
        const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
        while (texts.nextNode()) {
            for (const word of texts.currentNode.data.matchAll(/(?<![^ ])[a-z]{3,14}(?![^ ,.])/g)) {
                const range = document.createRange();
                range.setStart(texts.currentNode, word.index);
                range.setEnd(texts.currentNode, word.index + word[0].length);
                if (range.getClientRects().length > 1) broken.push(word[0]);
            }
        }
    }
    return broken;
})()"#;
