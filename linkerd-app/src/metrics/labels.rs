//! Label groups that several families share.

use linkerd_profiles::Meta;
use linkerd_proxy_core::{endpoint::Endpoint, metrics::Labels};
use std::net::SocketAddr;

/// `target_addr`, `target_ip`, `target_port`.
pub fn target_labels(labels: Labels, addr: SocketAddr) -> Labels {
    labels
        .with("target_addr", addr)
        .with("target_ip", addr.ip())
        .with("target_port", addr.port())
}

/// The labels of an endpoint's outbound series. `authority` is the name that was discovered, if any.
pub fn endpoint_labels(endpoint: &Endpoint, authority: Option<&str>, local: bool) -> Labels {
    let mut labels = Labels::new().with("direction", "outbound");
    if let Some(authority) = authority {
        labels = labels.with("authority", authority);
    }
    labels = target_labels(labels, endpoint.addr).with("tls", "no_identity");
    labels = match local {
        true => labels.with("no_tls_reason", "loopback"),
        false => labels.with("no_tls_reason", "not_provided_by_service_discovery"),
    };
    for (key, value) in endpoint.labels.iter() {
        labels = labels.with(&format!("dst_{key}"), value);
    }
    labels
}

/// The labels that name a resource, such as `parent_group` and so on.
pub fn meta_labels(labels: Labels, prefix: &str, meta: &Meta) -> Labels {
    let labels = route_meta_labels(labels, prefix, meta);
    let port = meta.port().map(|port| port.to_string()).unwrap_or_default();
    labels
        .with(&format!("{prefix}_port"), port)
        .with(&format!("{prefix}_section_name"), meta.section())
}

/// The labels that name a route: no port, no section.
pub(super) fn route_meta_labels(labels: Labels, prefix: &str, meta: &Meta) -> Labels {
    labels
        .with(&format!("{prefix}_group"), meta.group())
        .with(&format!("{prefix}_kind"), meta.kind())
        .with(&format!("{prefix}_namespace"), meta.namespace())
        .with(&format!("{prefix}_name"), meta.name())
}

/// The labels of a backend under a parent.
pub fn backend_labels(parent: &Meta, backend: &Meta) -> Labels {
    meta_labels(
        meta_labels(Labels::new(), "parent", parent),
        "backend",
        backend,
    )
}
