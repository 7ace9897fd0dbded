//! Authorizations of a server or a route, in the terms of `AuthorizationPolicy`, `NetworkAuthentication` and
//! `MeshTLSAuthentication`.

use crate::mesh::form::{FieldReader, shown};
use crate::mesh::host_name::{is_dns_name, resource_name};
use crate::mesh::yaml::{Node, Value};
use crate::server_policy::Authorization;
use ipnet::IpNet;

/// The field `authorizations`.
pub(super) fn authorizations(r: &mut FieldReader, node: &Node) -> Option<Vec<Authorization>> {
    let items = r.list(node)?.iter().zip(1..);
    Some(
        items
            .filter_map(|(item, n)| authorization(r, item, n))
            .collect(),
    )
}

fn authorization(r: &mut FieldReader, node: &Node, number: usize) -> Option<Authorization> {
    let fields = r.fields(node, &["name", "networks", "meshTLS", "identities"])?;
    let name = r.value(&fields, "name", resource_name);
    let name = name.unwrap_or_else(|| format!("authorization-{number}"));
    let mut authorization = match fields.get("networks") {
        None => Authorization::all(&name),
        Some(node) if node.is_empty_list() => {
            r.report(
                node.at,
                "without networks it admits nobody; leave `networks` out for all",
            );
            return None;
        }
        Some(_) => {
            let networks = r.each(&fields, "networks", network);
            Authorization::with_networks(&name, networks)
        }
    };
    if r.flag(&fields, "meshTLS") {
        authorization = authorization.mesh_tls();
    }
    if let Some(node) = fields.get("identities")
        && node.is_empty_list()
    {
        r.report(
            node.at,
            "without identities it admits nobody; write `[\"*\"]` for all",
        );
    }
    for identity in r.each(&fields, "identities", identity) {
        authorization = match identity {
            ListedIdentity::Exact(name) => authorization.identity(&name),
            ListedIdentity::Below(suffix) => authorization.identities_below(&suffix),
        };
    }
    Some(authorization)
}

/// Either the short form, `10.0.0.0/8`, or `cidr` and `except`.
fn network(r: &mut FieldReader, node: &Node) -> Option<(IpNet, Vec<IpNet>)> {
    if let Value::Scalar(_) = &node.value {
        return Some((cidr(r, node)?, Vec::new()));
    }
    let fields = r.fields(node, &["cidr", "except"])?;
    let except = r.each(&fields, "except", cidr);
    Some((r.required(&fields, "the network", "cidr", cidr)?, except))
}

/// A network, or one address.
fn cidr(r: &mut FieldReader, node: &Node) -> Option<IpNet> {
    let text = r.text(node)?;
    let address = || text.parse().map(|ip: std::net::IpAddr| IpNet::from(ip));
    let network = text.parse().ok().or_else(|| address().ok());
    if network.is_none() {
        let reason = format!("{} is not a network; write it as 10.0.0.0/8", shown(node));
        r.report(node.at, reason);
    }
    network
}

/// An identity of a list.
enum ListedIdentity {
    Exact(String),
    /// All identities with this end of the name; all identities if empty.
    Below(String),
}

fn identity(r: &mut FieldReader, node: &Node) -> Option<ListedIdentity> {
    let text = r.text(node)?;
    let name = text.to_ascii_lowercase();
    match name.strip_prefix('*') {
        Some("") => return Some(ListedIdentity::Below(String::new())),
        Some(suffix) => {
            if let Some(suffix) = suffix
                .strip_prefix('.')
                .filter(|suffix| is_dns_name(suffix))
            {
                return Some(ListedIdentity::Below(suffix.to_owned()));
            }
        }
        None if text.contains("://") => return Some(ListedIdentity::Exact(text)),
        None if is_dns_name(&name) => return Some(ListedIdentity::Exact(name)),
        None => {}
    }
    let reason = format!(
        "{} is not an identity; write web.shop.serviceaccount.identity.linkerd.cluster.local, *.test.local or *",
        shown(node)
    );
    r.report(node.at, reason);
    None
}
