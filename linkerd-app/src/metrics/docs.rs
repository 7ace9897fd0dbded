//! `docs/metrics.md`, rendered from the registered families, so that it cannot drift.

mod labels;

use super::Families;
use crate::cli::CONTROLLER_FAMILIES;
use labels::labels_of;
use linkerd_proxy_core::metrics::Registry;
use std::fmt::Write;

/// The whole document, in Markdown.
fn render() -> String {
    let registry = Registry::new();
    Families::register(&registry);
    let mut rows = registry.describe();
    rows.extend(COLLECTED);
    rows.extend(CONTROLLER_FAMILIES);
    rows.sort_by_key(|(name, ..)| *name);
    let mut out = INTRODUCTION.to_owned();
    let mut left = rows.len();
    for (prefix, title) in GROUPS {
        let group = rows
            .iter()
            .filter(|(name, ..)| group_of(name) == Some(*prefix));
        line(&mut out, format_args!("\n## {title}\n\n{HEAD}"));
        for (name, kind, help) in group {
            let labels = labels_of(name);
            let row = format_args!("| `{name}` | {kind} | {help} | {labels} |");
            line(&mut out, row);
            left -= 1;
        }
    }
    assert_eq!(left, 0, "every family has a group");
    line(&mut out, format_args!("\n{DIFFERENCES}"));
    for (families, reason) in DIFFERENT {
        line(&mut out, format_args!("| `{families}` | {reason} |"));
    }
    line(&mut out, format_args!("\n{DIFFERENT_VALUES}"));
    out
}

/// The group with the longest prefix that fits.
fn group_of(name: &str) -> Option<&'static str> {
    let prefixes = GROUPS.iter().map(|(prefix, _)| *prefix);
    prefixes
        .filter(|prefix| name.starts_with(prefix))
        .max_by_key(|prefix| prefix.len())
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("writing to a string does not fail");
}

const HEAD: &str = "| family | type | what it counts | labels |\n|---|---|---|---|";

/// Headings, and the prefixes of their families.
const GROUPS: &[(&str, &str)] = &[
    ("re", "Endpoints and the application"),
    ("route_", "Routes of service profiles"),
    ("tcp_", "Connections"),
    ("outbound_", "Outbound"),
    ("outbound_http_route_", "Outbound HTTP routes"),
    ("outbound_grpc_route_", "Outbound gRPC routes"),
    ("outbound_http_balancer_", "Outbound HTTP balancers"),
    ("outbound_tcp_balancer_", "Outbound TCP balancers"),
    ("inbound_", "Inbound"),
    ("control_", "The control plane"),
    (
        "controller_",
        "The embedded controller, `control --admin-listen`",
    ),
    ("stack_", "Stacks"),
    ("opentelemetry_", "Spans"),
    ("trace_export_", "Spans that were not exported"),
    ("proxy_", "The proxy"),
    ("process_", "The process"),
    ("tokio_rt_", "Runtimes"),
    ("rustls_", "TLS"),
];

/// Metrics from collectors, which are no families of the registry.
const COLLECTED: &[(&str, &str, &str)] = &[
    (
        "control_dns_resolutions_total",
        "counter",
        "DNS resolutions of controllers",
    ),
    (
        "process_clock_time_seconds",
        "gauge",
        "Time of the system, since the Unix epoch",
    ),
    (
        "process_cpu_seconds_total",
        "counter",
        "CPU time of user and system that the process has used",
    ),
    (
        "process_max_fds",
        "gauge",
        "File descriptors that may be open, unlimited if not given",
    ),
    (
        "process_network_receive_bytes_total",
        "counter",
        "Bytes that the network namespace of the process has received",
    ),
    (
        "process_network_transmit_bytes_total",
        "counter",
        "Bytes that the network namespace of the process has sent",
    ),
    (
        "process_open_fds",
        "gauge",
        "File descriptors that are open",
    ),
    (
        "process_resident_memory_bytes",
        "gauge",
        "Resident memory of the process",
    ),
    (
        "process_start_time_seconds",
        "gauge",
        "Time that the process started, since the Unix epoch",
    ),
    ("process_threads", "gauge", "Threads of the process"),
    (
        "process_uptime_seconds_total",
        "counter",
        "Time since the process started",
    ),
    (
        "process_virtual_memory_bytes",
        "gauge",
        "Virtual memory of the process",
    ),
    (
        "proxy_build_info",
        "gauge",
        "What this proxy was built from",
    ),
    ("rustls_info", "gauge", "Algorithms of TLS"),
    (
        "proxy_access_log_lines_dropped_total",
        "counter",
        "Lines of the access log that were dropped because nobody read them in time",
    ),
    (
        "proxy_tap_events_dropped_total",
        "counter",
        "Events of taps that were dropped because their clients did not read them in time",
    ),
    (
        "proxy_log_lines_dropped_total",
        "counter",
        "Log lines that were dropped because nobody read them in time",
    ),
    (
        "proxy_metrics_series_refused_total",
        "counter",
        "Series that were refused because their family was full: its series `other` counts for them, unless they are gauges; absent while there are none",
    ),
    (
        "opentelemetry_span_export_requests",
        "counter",
        "Exports of spans that were begun",
    ),
    (
        "opentelemetry_span_exports",
        "counter",
        "Spans that the collector has taken",
    ),
    (
        "trace_export_failures_total",
        "counter",
        "Exports of spans that failed",
    ),
    (
        "trace_export_spans_dropped_total",
        "counter",
        "Spans that were dropped",
    ),
    ("tokio_rt_alive_tasks", "gauge", "Tasks that have not ended"),
    (
        "tokio_rt_busy_seconds_total",
        "counter",
        "Time that threads spent with tasks",
    ),
    (
        "tokio_rt_injection_queue_depth",
        "gauge",
        "Tasks that were woken from other threads and wait to run",
    ),
    (
        "tokio_rt_park_total",
        "counter",
        "How often threads had nothing to do and waited",
    ),
    ("tokio_rt_workers", "gauge", "Threads that run tasks"),
];

const DIFFERENCES: &str = "\
## Differences from linkerd2-proxy

`tests/tests/metrics/incumbent.txt` lists the families of linkerd2-proxy with their types, label names and bounds of buckets. A test
drives the proxy with traffic of every kind, and compares its scrapes with that list, and the values of labels such as `error` with
`values.txt` beside it. The families below differ, `{a,b}` stands for each of them. The label `le` is the last one of each bucket.

| families | difference |
|---|---|";

/// Families of linkerd2-proxy that are absent or differ, and why.
const DIFFERENT: &[(&str, &str)] = &[
    (
        "stack_{poll_total,poll_total_ms}",
        "absent: stages are always ready, and waiting for an endpoint is in `*_balancer_queue_latency_seconds`",
    ),
    (
        "opentelemetry_span_export_streams",
        "absent: spans are exported by single calls, counted by `opentelemetry_span_export_requests`",
    ),
    (
        "opentelemetry_balancer_{endpoints,p2c_endpoints,p2c_updates_total,queue_length,queue_requests_total,queue_latency_seconds,queue_gate_open_total,queue_gate_shut_total,queue_gate_open_time_seconds,queue_gate_shut_time_seconds,queue_gate_timeout_seconds}",
        "named `control_trace_collector_balancer_*`, after the collector's label `client` in `control_dns_resolutions_total`",
    ),
    (
        "tokio_rt_{noop,steal,steal_operations,remote_schedule,local_schedule,overflow,polls,budget_forced_yield,io_driver_ready}_total",
        "absent: the runtime counts them only if it is built with `tokio_unstable`; workers do not steal tasks",
    ),
    ("tokio_rt_local_queue_depth", "absent, as above"),
];

const DIFFERENT_VALUES: &str = "\
## Differences in values

| families | difference |
|---|---|
| `stack_create_total`, `stack_drop_total` | `protocol` is `http`, `opaq` or `tls`, and `name` is `balance`, `forward` or `endpoint`, as with linkerd2-proxy, or `fail` for a backend that refuses its traffic. An endpoint counts when it is first used, since it has no stack before. A connection that is forwarded to one address, opaque or TLS, has no stack of its endpoint |
| `response_latency_ms`, `route_response_latency_ms`, `control_response_latency_ms` | with fractions of a millisecond; linkerd2-proxy cuts each latency to whole milliseconds, so that the sum of fast responses is 0 there |
| `outbound_http_errors_total` | `error=\"i/o\"` does not occur: each I/O error is an endpoint's, and counted there |
| `outbound_tcp_balancer_*` | `logical` is the name of the profile, or else the target. If the profile of a target changes, a balancer that stays in use keeps its label |
| `*_balancer_*` | series of a balancer that is gone leave after `LINKERD2_PROXY_METRICS_RETAIN_IDLE`; linkerd2-proxy keeps them for ever |";

const INTRODUCTION: &str = "\
<!-- Rendered from the families that the proxy registers: UPDATE_DOCS=1 cargo test -p linkerd-app docs -->

# Metrics

`GET /metrics` on the admin port, as Prometheus text, or as OpenMetrics 1.0.0 for a scraper that prefers it (`Accept:
application/openmetrics-text; version=1.0.0`): there, bounds of buckets have a point (`le=\"5.0\"`). Either is compressed if
the client accepts gzip. Names, labels and buckets are those of linkerd2-proxy where it has the family;
`proxy_failures_total` and `*_moved_requests_total` are ours. A family without series is left out. A series leaves
when nothing has used it for `LINKERD2_PROXY_METRICS_RETAIN_IDLE`. A family holds at most 20,000 series. Counters and
histograms of further ones count in one series of their family whose labels all have the value `other`, so that a sum over the family is
right; gauges of further ones are not shown. The label names are those of the first one that was refused. Series that leave make room
again.

Workers (`LINKERD2_PROXY_CORES`) share a series: it has the sum of their counts. A gauge is the sum of the workers' gauges as well, unless
its type says otherwise:

| type | value | without a worker that uses it |
|---|---|---|
| gauge | sum of the workers | 0 |
| gauge (max) | maximum of the workers, each of which holds the whole set | 0 |
| gauge (latest) | maximum of the workers: the latest time, or a setting | kept |

The last column is about a series whose target is idle and was removed: a balancer that is gone has no endpoints, but the time
that it last failed remains true. linkerd2-proxy keeps these series for ever.

With `LINKERD_PROXY_METRICS_NATIVE_HISTOGRAMS=true` histograms count in native buckets as well, for which
[operations.md](operations.md#native-histograms) says how to scrape them.

Groups of labels:

| group | labels |
|---|---|
| *endpoint* | outbound: `authority`, `target_*`, `tls`, `no_tls_reason`, and `dst_*` for each label that discovery gives; inbound: `authority` with `LINKERD2_PROXY_INBOUND_METRICS_AUTHORITY_LABELS`, `target_*`, `tls`, `no_tls_reason`, `srv_*`, and for requests `route_*`, `authz_*` |
| `dst_*` | names of discovery, with `_` for each character that Prometheus does not allow; if two become equal (`a.b`, `a_b`), the one that is valid as it is counts, else the first in the order of their names |
| `target_*` | `target_addr`, `target_ip`, `target_port` |
| `parent_*`, `backend_*` | `_group`, `_kind`, `_namespace`, `_name`, `_port`, `_section_name` of the resource |
| `route_*` | `_group`, `_kind`, `_namespace`, `_name` of the route |
| `rt_*` | names of the labels of a profile's route, made valid as those of `dst_*`; a request of none has no such label. `dst` is the name and port of the service |
| `srv_*` | `srv_group`, `srv_kind`, `srv_name`, `srv_port` of the policy of an inbound port |
";

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::HashSet, time::Duration};
    use tokio::time::Instant;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a switch of this test")]
    fn docs_are_those_of_the_families() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/metrics.md");
        let rendered = render();
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, &rendered).unwrap();
        }
        assert!(
            std::fs::read_to_string(path).unwrap_or_default() == rendered,
            "docs/metrics.md differs from the families; render it anew with: UPDATE_DOCS=1 cargo test -p linkerd-app docs"
        );
    }

    #[test]
    fn docs_know_what_is_collected_at_each_scrape() {
        let registry = Registry::new();
        crate::process::register(&registry);
        let _runtimes = crate::process::runtimes(&registry);
        registry.collect(|out| crate::logging::write_dropped(0, out));
        registry.collect(|out| crate::access_log::write_dropped(0, out));
        registry.collect(|out| crate::tap::write_dropped(0, out));
        registry.collect(|out| crate::trace::ExportStats::default().write(out));
        let text = registry.render(Duration::ZERO, Instant::now());
        let known: HashSet<_> = COLLECTED
            .iter()
            .map(|(name, kind, help)| format!("# HELP {name} {help}.\n# TYPE {name} {kind}\n"))
            .collect();
        let heads = text.split("# HELP ").skip(1).map(|head| {
            let lines: Vec<_> = head.lines().take(2).collect();
            format!("# HELP {}\n", lines.join("\n"))
        });
        for head in heads {
            assert!(known.contains(&head), "{head}");
        }
    }
}
