//! The metrics in the alerts and the dashboard of `deploy/` exist in the proxy, and the documented scrape finds its ports.

#![allow(clippy::unwrap_used, missing_docs)]

use linkerd_tests::documents;
use serde_json::Value;
use std::{collections::BTreeSet, fs, path::Path};

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)).unwrap()
}

/// The families of docs/metrics.md, which is rendered from the proxy's registry.
fn families() -> BTreeSet<String> {
    let document = read("docs/metrics.md");
    let rows = document.lines().filter_map(|line| line.strip_prefix("| `"));
    let mut families = BTreeSet::new();
    for row in rows {
        let mut cells = row.split(" | ");
        let name = cells.next().unwrap().trim_end_matches('`').to_owned();
        if cells.next() == Some("histogram") {
            families.insert(format!("{name}_bucket"));
        } else {
            families.insert(name);
        }
    }
    families
}

/// The names of metrics in a query.
fn metrics(query: &str) -> impl Iterator<Item = &str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = query.split(move |c| !is_name(c));
    words.filter(|word| OF_THE_PROXY.iter().any(|prefix| word.starts_with(prefix)))
}

const OF_THE_PROXY: [&str; 10] = [
    "control_",
    "controller_",
    "inbound_",
    "outbound_",
    "process_",
    "proxy_",
    "request_",
    "response_",
    "route_",
    "tcp_",
];

fn assert_known(source: &str, queries: &[String]) {
    let families = families();
    let mut seen = 0;
    for query in queries {
        for name in metrics(query) {
            assert!(
                families.contains(name),
                "{source}: {name} is no metric: {query}"
            );
            seen += 1;
        }
    }
    assert!(
        seen >= queries.len(),
        "{source}: {seen} metrics in {} queries",
        queries.len()
    );
}

#[test]
fn alerts_are_about_metrics_of_the_proxy() {
    let rules = read("deploy/prometheus/alerts.yaml");
    let rules = rules.split("- alert: ").skip(1);
    let query = |rule: &str| {
        let (_, query) = rule.split_once("expr:").unwrap();
        query
            .split("for:")
            .next()
            .unwrap()
            .split("labels:")
            .next()
            .unwrap()
            .to_owned()
    };
    let queries: Vec<_> = rules.map(query).collect();
    assert!(queries.len() >= 8);
    assert_known("alerts.yaml", &queries);
}

#[test]
fn the_dashboard_shows_metrics_of_the_proxy() {
    let dashboard: Value =
        serde_json::from_str(&read("deploy/grafana/linkerd-proxy.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels
        .iter()
        .filter_map(|panel| panel["targets"].as_array());
    let queries = targets
        .flatten()
        .map(|target| target["expr"].as_str().unwrap().to_owned());
    let queries: Vec<_> = queries.collect();
    assert!(queries.len() >= 20);
    assert_known("linkerd-proxy.json", &queries);
}

/// The names of all ports of a manifest, after their containers' names: `control;admin`.
fn container_ports(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|it| container_ports(it, found)),
        Value::Object(fields) => {
            if let (Some(name), Some(Value::Array(ports))) =
                (fields.get("name"), fields.get("ports"))
            {
                let ports = ports.iter().filter_map(|port| port["name"].as_str());
                found.extend(ports.map(|port| format!("{};{port}", name.as_str().unwrap())));
            }
            fields.values().for_each(|it| container_ports(it, found));
        }
        _ => {}
    }
}

#[test]
fn the_scrape_of_the_page_about_kubernetes_finds_controller_and_sidecars() {
    let mut found = BTreeSet::new();
    for file in [
        "deploy/kubernetes/control/deployment.yaml",
        "linkerd-inject/tests/golden/deployment.injected.yaml",
    ] {
        for document in documents(&read(file)) {
            container_ports(&document, &mut found);
        }
    }
    let page = read("docs/kubernetes.md");
    let mut lines = page.lines().map(str::trim);
    let regex = lines.find_map(|line| line.strip_prefix("regex: ")).unwrap();
    let scraped: BTreeSet<_> = regex.split('|').map(str::to_owned).collect();
    assert_eq!(scraped.len(), 2);
    assert!(scraped.is_subset(&found), "{scraped:?} of {found:?}");
}
