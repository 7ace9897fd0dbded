//! The proxy of an endpoint: its identity, and its port for other proxies.

use super::form::{FieldReader, Fields, shown};
use super::host_name::is_dns_name;
use super::yaml::Node;

/// The proxy of an endpoint, as an endpoint or its service declares it.
#[derive(Clone, Debug, Default)]
pub(super) struct PeerProxy {
    /// The DNS name in its certificate.
    pub(super) identity: Option<String>,
    /// The proxy's inbound port, for connections with a transport header.
    pub(super) port: Option<u16>,
}

/// The fields `identity` and `proxyPort`; an endpoint without them has those of its service.
pub(super) fn peer_proxy(
    r: &mut FieldReader,
    fields: &Fields<'_>,
    of_service: &PeerProxy,
) -> PeerProxy {
    let identity = r.value(fields, "identity", identity);
    let port = r.value(fields, "proxyPort", |r, node| r.within(node, 1..=65_535));
    let port = port.and_then(|port| u16::try_from(port).ok());
    let has_identity = of_service.identity.is_some() || fields.get("identity").is_some();
    if let Some(node) = fields.get("proxyPort")
        && !has_identity
    {
        let reason =
            "a `proxyPort` takes mutual TLS only; add the `identity` of the proxy behind it";
        r.report(node.at, reason);
    }
    PeerProxy {
        identity: identity.or_else(|| of_service.identity.clone()),
        port: port.or(of_service.port),
    }
}

fn identity(r: &mut FieldReader, node: &Node) -> Option<String> {
    let name = r.text(node)?.to_ascii_lowercase();
    if is_dns_name(&name) {
        return Some(name);
    }
    let reason = format!(
        "{} is not the identity of a proxy; write one DNS name, such as \
         web.shop.serviceaccount.identity.linkerd.cluster.local",
        shown(node)
    );
    r.report(node.at, reason);
    None
}
