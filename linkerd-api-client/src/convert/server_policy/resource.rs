//! The resources that configure servers, routes and authorizations.

use super::invalid::InvalidServer;
use linkerd_api_proto::meta::{Metadata, metadata::Kind};
use linkerd_profiles::{Meta, Resource};
use linkerd_proxy_core::endpoint::bounded_label;
use std::{collections::HashMap, num::NonZeroU16, sync::Arc};

/// The resource of a route or a limit.
pub(super) fn of_metadata(
    wire: Option<Metadata>,
    part: &'static str,
) -> Result<Arc<Meta>, InvalidServer> {
    let kind = wire.and_then(|wire| wire.kind);
    Ok(Arc::new(
        match kind.ok_or(InvalidServer::Missing(part))? {
            Kind::Default(name) => Meta::Default(bounded_label(name)),
            Kind::Resource(wire) => Meta::Resource(Resource {
                group: bounded_label(wire.group),
                kind: bounded_label(wire.kind),
                name: bounded_label(wire.name),
                namespace: bounded_label(wire.namespace),
                section: Some(bounded_label(wire.section)).filter(|section| !section.is_empty()),
                port: u16::try_from(wire.port).ok().and_then(NonZeroU16::new),
            }),
        },
    ))
}

/// The resource named by labels; older control planes put group, kind and default into one text.
pub(super) fn of_labels(
    mut labels: HashMap<String, String>,
    default_kind: &str,
) -> Result<Arc<Meta>, InvalidServer> {
    let mut remove = |key| labels.remove(key).map(bounded_label);
    let name = remove("name").ok_or(InvalidServer::NoName)?;
    let group = remove("group");
    let group = group.unwrap_or_else(|| DEFAULT_GROUP.to_owned());
    let resource = |group: String, kind: String, name: String| {
        Meta::Resource(Resource {
            group,
            kind,
            name,
            namespace: String::new(),
            section: None,
            port: None,
        })
    };
    Ok(Arc::new(match (remove("kind"), name.split_once(':')) {
        (Some(kind), _) if group.is_empty() && kind == "default" => Meta::Default(name),
        (Some(kind), _) => resource(group, kind, name),
        (None, Some(("default", name))) => Meta::Default(name.to_owned()),
        (None, Some((kind, name))) => resource(group, kind.to_owned(), name.to_owned()),
        (None, None) => resource(group, default_kind.to_owned(), name),
    }))
}

const DEFAULT_GROUP: &str = "policy.linkerd.io";
