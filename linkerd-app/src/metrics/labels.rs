//! Label groups that several families share.

use linkerd_profiles::Meta;
use linkerd_proxy_core::{
    endpoint::Endpoint,
    metrics::{AddLabels, Labels},
    tls::{Identity, NoTlsReason, TlsStatus},
};
use std::{net::SocketAddr, sync::Arc};

/// `target_addr`, `target_ip`, `target_port`.
pub fn target_labels(labels: Labels, addr: SocketAddr) -> Labels {
    labels
        .with_addr("target_addr", addr)
        .with_ip("target_ip", addr.ip())
        .with_number("target_port", addr.port())
}

/// `tls` and its reason, of a client's connection: `client_id`.
pub fn client_tls_labels(labels: Labels, tls: &TlsStatus) -> Labels {
    tls_labels(labels, tls, "client_id")
}

/// `tls` and its reason, of a connection to an endpoint: `server_id`.
pub fn server_tls_labels(labels: Labels, tls: &TlsStatus) -> Labels {
    tls_labels(labels, tls, "server_id")
}

fn tls_labels(labels: Labels, tls: &TlsStatus, identity: &str) -> Labels {
    match tls {
        TlsStatus::None(reason) => labels
            .with_word("tls", "no_identity")
            .with_word("no_tls_reason", reason.label()),
        TlsStatus::Meshed(peer) => labels
            .with_word("tls", "true")
            .with(identity, peer.as_ref().map_or("", Identity::as_str)),
        TlsStatus::Passthrough { server_name } => {
            labels.with_word("tls", "opaque").with("sni", server_name)
        }
    }
}

/// The labels of an endpoint's outbound series, rendered on demand from shared data.
#[derive(Debug)]
pub struct EndpointLabels {
    /// The endpoint.
    pub endpoint: Arc<Endpoint>,
    /// The discovered name, if any.
    pub authority: Option<Arc<str>>,
    /// Whether it is in this pod.
    pub is_local: bool,
    /// Whether connections to it are encrypted.
    pub is_meshed: bool,
    /// Whether the series are of connections, which have the label `peer`.
    pub is_transport: bool,
}

impl AddLabels for EndpointLabels {
    fn add_to(&self, labels: Labels) -> Labels {
        let mut labels = labels.with_word("direction", "outbound");
        if self.is_transport {
            labels = labels.with_word("peer", "dst");
        }
        if let Some(authority) = &self.authority {
            labels = labels.with("authority", authority);
        }
        let server = self.endpoint.tls.as_ref().filter(|_| self.is_meshed);
        let tls = match (server, self.is_local) {
            (Some(server), _) => TlsStatus::Meshed(Some(server.identity.clone())),
            (None, true) => TlsStatus::None(NoTlsReason::Loopback),
            (None, false) => TlsStatus::None(NoTlsReason::NotProvidedByServiceDiscovery),
        };
        labels = server_tls_labels(target_labels(labels, self.endpoint.addr), &tls);
        self.endpoint.labels.add_to(labels, "dst_")
    }
}

/// The labels that name a resource, such as `parent_group` and so on.
pub fn meta_labels(labels: Labels, prefix: &str, meta: &Meta) -> Labels {
    let labels = route_meta_labels(labels, prefix, meta);
    let port = meta.port().map(|port| port.to_string()).unwrap_or_default();
    labels
        .with_prefix(prefix, "_port", port)
        .with_prefix(prefix, "_section_name", meta.section())
}

/// The labels that name a route: no port, no section.
pub(super) fn route_meta_labels(labels: Labels, prefix: &str, meta: &Meta) -> Labels {
    labels
        .with_prefix(prefix, "_group", meta.group())
        .with_prefix(prefix, "_kind", meta.kind())
        .with_prefix(prefix, "_namespace", meta.namespace())
        .with_prefix(prefix, "_name", meta.name())
}

/// The labels that name a resource of an inbound policy: `srv_group` and so on. It has no namespace there.
pub fn inbound_meta_labels(labels: Labels, prefix: &str, meta: &Meta) -> Labels {
    labels
        .with_prefix(prefix, "_group", meta.group())
        .with_prefix(prefix, "_kind", meta.kind())
        .with_prefix(prefix, "_name", meta.name())
}

/// The labels of a backend under a parent.
pub fn backend_labels(parent: &Meta, backend: &Meta) -> Labels {
    meta_labels(
        meta_labels(Labels::new(), "parent", parent),
        "backend",
        backend,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use linkerd_proxy_core::metrics::{LabelSet, Registry, RegistryStyle};
    use std::time::Duration;
    use tokio::time::Instant;

    fn labels(is_transport: bool) -> LabelSet {
        let mut endpoint = Endpoint::new(SocketAddr::from(([10, 0, 0, 1], 80)));
        let own = [("pod", "web-1"), ("a.b/c", "\"")];
        let own = own.map(|(key, value)| (key.to_owned(), value.to_owned()));
        endpoint.labels = own.into_iter().collect();
        LabelSet::new(EndpointLabels {
            endpoint: Arc::new(endpoint),
            authority: Some("web.default.svc.cluster.local".into()),
            is_local: false,
            is_meshed: false,
            is_transport,
        })
    }

    #[test]
    fn workers_that_know_the_same_endpoint_count_in_one_line() {
        let registry = Registry::new();
        let family = registry.counter(RegistryStyle::Legacy, "request_total", "Requests");
        let workers = [family.get(labels(false)), family.get(labels(false))];
        workers[0].add(2);
        workers[1].incr();
        let text = registry.render(Duration::from_secs(600), Instant::now());
        let line = concat!(
            r#"request_total{direction="outbound",authority="web.default.svc.cluster.local","#,
            r#"target_addr="10.0.0.1:80",target_ip="10.0.0.1",target_port="80",tls="no_identity","#,
            r#"no_tls_reason="not_provided_by_service_discovery",dst_pod="web-1",dst_a_b_c="\""} 3"#,
        );
        assert_eq!(text.lines().nth(2), Some(line), "{text}");
        assert_eq!(text.matches("request_total{").count(), 1);
    }

    #[test]
    fn connections_have_their_side_after_the_direction() {
        let labels = labels(true).to_labels();
        let beginning = r#"direction="outbound",peer="dst",authority="web"#;
        assert!(
            labels.as_str().starts_with(beginning),
            "{}",
            labels.as_str()
        );
    }
}
