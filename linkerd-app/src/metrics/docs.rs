//! `docs/metrics.md`, rendered from the registered families, so that it cannot drift.

use super::Families;
use linkerd_proxy_core::metrics::Registry;
use std::fmt::Write;

/// The whole document, in Markdown.
fn render() -> String {
    let registry = Registry::new();
    Families::register(&registry);
    let mut rows = registry.describe();
    rows.extend(COLLECTED);
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
    out
}

/// The group with the longest prefix that fits.
fn group_of(name: &str) -> Option<&'static str> {
    let prefixes = GROUPS.iter().map(|(prefix, _)| *prefix);
    prefixes
        .filter(|prefix| name.starts_with(prefix))
        .max_by_key(|prefix| prefix.len())
}

/// The labels of a family, by its name. `x_*` is a group of labels, which the introduction explains.
fn labels_of(name: &str) -> &'static str {
    match name {
        "request_total" => "direction, *endpoint*",
        "response_latency_ms" => "direction, *endpoint*, status_code",
        "response_total" => {
            "direction, *endpoint*, status_code, classification, grpc_status, error"
        }
        "route_response_latency_ms" => "direction, dst, rt_*, status_code",
        "route_response_total" | "route_actual_response_total" => {
            "direction, dst, rt_*, status_code, classification, grpc_status, error"
        }
        "route_retryable_total" => "direction, dst, rt_*, skipped (no_budget)",
        _ if name.starts_with("route_") => "direction, dst, rt_*",
        "control_request_total" => "addr, tls, no_tls_reason",
        "control_response_latency_ms" => "addr, tls, no_tls_reason, status_code",
        "control_response_total" => {
            "addr, tls, no_tls_reason, status_code, classification, grpc_status, error"
        }
        "control_dns_resolutions_total" => "client, record_type, result",
        "control_identity_cert_refreshes_total" => "result",
        "trace_export_spans_dropped_total" => "reason (queue_full, export_failed, rejected)",
        "inbound_tcp_transport_header_connections_total" => {
            "session_protocol, target_port, target_name, client_id"
        }
        "tcp_close_total" => "direction, peer, *endpoint*, errno",
        _ if name.starts_with("tcp_") => "direction, peer, *endpoint*",
        _ if name.starts_with("stack_") => "direction, protocol, name",
        "outbound_http_errors_total" => "error",
        "proxy_failures_total" => "direction, protocol, origin, phase, reason",
        "inbound_http_errors_total" => "error, target_*, srv_*",
        "outbound_tcp_errors_total" => "target_*, error",
        "inbound_tcp_errors_total" => "error, target_*",
        "outbound_tcp_protocol_connections_total" => "protocol, parent_*",
        "outbound_tcp_detect_http_results_total" => "result, parent_*",
        "outbound_tcp_detect_silent_total" => {
            "outcome (server_first, client_http, client_opaque), parent_*"
        }
        "outbound_tcp_detect_http_duration_seconds" => "parent_*",
        "inbound_tcp_detect_http_results_total" => "result, srv_*",
        "inbound_tcp_detect_silent_total" => {
            "outcome (server_first, client_http, client_opaque), srv_*"
        }
        "inbound_tcp_detect_http_duration_seconds" => "srv_*",
        "inbound_http_authz_allow_total" => {
            "target_*, srv_*, route_*, authz_*, tls, client_id or no_tls_reason"
        }
        "inbound_http_authz_deny_total" => {
            "target_*, srv_*, route_*, tls, client_id or no_tls_reason"
        }
        "inbound_http_route_not_found_total" => "target_*, srv_*, tls, client_id or no_tls_reason",
        "inbound_http_local_ratelimit_total" => {
            "target_*, srv_*, ratelimit_group, ratelimit_kind, ratelimit_name, ratelimit_scope (total, identity), tls, client_id or no_tls_reason"
        }
        "inbound_tcp_authz_allow_total" => {
            "target_*, srv_*, authz_*, tls, client_id or no_tls_reason"
        }
        "inbound_tcp_authz_deny_total" | "inbound_tcp_authz_terminate_total" => {
            "target_*, srv_*, tls, client_id or no_tls_reason"
        }
        "inbound_http_statuses_total" | "inbound_grpc_statuses_total" => {
            "parent_group, parent_kind, parent_name, parent_port, route_group, route_kind, route_name, status"
        }
        _ if name.starts_with("inbound_http_") || name.starts_with("inbound_grpc_") => {
            "parent_group, parent_kind, parent_name, parent_port, route_group, route_kind, route_name"
        }
        "outbound_http_route_request_statuses_total" => {
            "parent_*, route_*, hostname, http_status, error"
        }
        "outbound_grpc_route_request_statuses_total" => {
            "parent_*, route_*, hostname, grpc_status, error"
        }
        "outbound_http_route_backend_response_statuses_total" => {
            "parent_*, route_*, backend_*, http_status, error"
        }
        "outbound_grpc_route_backend_response_statuses_total" => {
            "parent_*, route_*, backend_*, grpc_status, error"
        }
        "outbound_tcp_route_open_total" => "parent_*, route_*, target_ip, target_port",
        "outbound_tls_route_open_total" => "parent_*, route_*, hostname",
        "outbound_tcp_transfer_cost_bytes_total" => {
            "op (Send, Recv), zone_locality (Unknown, Local, Remote)"
        }
        "outbound_tcp_route_close_total" => "parent_*, route_*, target_ip, target_port, error",
        "outbound_tls_route_close_total" => "parent_*, route_*, hostname, error",
        _ if name.contains("_route_backend_") => "parent_*, route_*, backend_*",
        _ if name.ends_with("_route_retry_skipped_total") => "parent_*, route_*, hostname, reason",
        _ if name.ends_with("_route_hedge_skipped_total") => "parent_*, route_*, hostname, reason",
        _ if name.contains("_route_retry_") || name.contains("_route_hedge_") => {
            "parent_*, route_*, hostname"
        }
        _ if name.contains("_route_request_") => "parent_*, route_*, hostname",
        _ if name.contains("_balancer_") => balancer_labels(name),
        "proxy_build_info" => "date, git_sha, profile, vendor, version",
        "proxy_metrics_series_refused_total" => "family",
        "rustls_info" => "tls_suites, tls_kx_groups, tls_rand, tls_key_provider, tls_fips",
        _ => "",
    }
}

fn balancer_labels(name: &str) -> &'static str {
    let (own, rest) = match name {
        _ if name.starts_with("control_") => ("addr", ["endpoint_state, addr", "op, addr"]),
        _ if name.starts_with("outbound_tls_") => {
            ("concrete", ["endpoint_state, concrete", "op, concrete"])
        }
        _ if name.starts_with("outbound_tcp_") => (
            "parent_*, backend_*, logical, concrete",
            [
                "endpoint_state, parent_*, backend_*, logical, concrete",
                "op, parent_*, backend_*, logical, concrete",
            ],
        ),
        _ => (
            "parent_*, backend_*",
            [
                "endpoint_state, parent_*, backend_*",
                "op, parent_*, backend_*",
            ],
        ),
    };
    match name {
        _ if name.ends_with("_balancer_endpoints") => rest[0],
        _ if name.ends_with("_updates_total") => rest[1],
        _ => own,
    }
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
        "Series that were not shown because their family was full; absent while there are none",
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

const INTRODUCTION: &str = "\
<!-- Rendered from the families that the proxy registers: UPDATE_DOCS=1 cargo test -p linkerd-app docs -->

# Metrics

`GET /metrics` on the admin port, as Prometheus text, or as OpenMetrics 1.0.0 for a scraper that prefers it (`Accept:
application/openmetrics-text; version=1.0.0`): there, bounds of buckets have a point (`le=\"5.0\"`). Either is compressed if
the client accepts gzip. Names, labels and buckets are those of linkerd2-proxy where it has the family;
`proxy_failures_total` and `*_moved_requests_total` are ours. A family without series is left out. A series leaves
when nothing has used it for `LINKERD2_PROXY_METRICS_RETAIN_IDLE`. A family holds at most 20,000 series.

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
