//! The labels of each family, for the document.

/// The labels of a family, by its name. `x_*` is a group of labels, which the introduction explains.
pub(super) fn labels_of(name: &str) -> &'static str {
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
        "controller_certificates_total" => {
            "outcome (issued, refused_token, refused_name, refused_request)"
        }
        "controller_mesh_file_loads_total" => "outcome (applied, refused)",
        "controller_open_streams" => "kind (destination, profile, outbound_policy, inbound_policy)",
        _ if name.starts_with("controller_") => "",
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
        "inbound_authz_denials_total" => {
            "srv_*, route_*, nearest_group, nearest_kind, nearest_name, unmet (network, excepted network, no TLS, no identity, identity not listed, no authorization), tls, client_id or no_tls_reason"
        }
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
