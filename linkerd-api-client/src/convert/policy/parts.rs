//! Parts shared by several kinds of routes.

use super::invalid::InvalidPolicy;
use crate::convert::duration::duration as convert_duration;
use linkerd_api_proto::{meta as wire_meta, outbound::ExponentialBackoff, prost_types};
use linkerd_profiles::{HostMatch, Meta, Resource};
use linkerd_proxy_core::{Backoff, endpoint::bounded_label};
use std::{num::NonZeroU16, sync::Arc, time::Duration};

pub(super) fn meta(
    wire: Option<wire_meta::Metadata>,
    part: &'static str,
) -> Result<Arc<Meta>, InvalidPolicy> {
    use wire_meta::metadata::Kind;
    let meta = match required(wire.and_then(|meta| meta.kind), part)? {
        Kind::Default(name) => Meta::Default(non_empty(name, "name")?),
        Kind::Resource(resource) => Meta::Resource(Resource {
            group: non_empty(resource.group, "group")?,
            kind: non_empty(resource.kind, "kind")?,
            name: non_empty(resource.name, "name")?,
            namespace: non_empty(resource.namespace, "namespace")?,
            section: Some(bounded_label(resource.section)).filter(|section| !section.is_empty()),
            port: u16::try_from(resource.port)
                .map(NonZeroU16::new)
                .map_err(|_| InvalidPolicy::Port(resource.port))?,
        }),
    };
    Ok(Arc::new(meta))
}

pub(super) fn required<T>(value: Option<T>, part: &'static str) -> Result<T, InvalidPolicy> {
    value.ok_or(InvalidPolicy::Missing(part))
}

fn non_empty(text: String, part: &'static str) -> Result<String, InvalidPolicy> {
    if text.is_empty() {
        return Err(InvalidPolicy::Resource(part));
    }
    Ok(bounded_label(text))
}

pub(super) fn duration(
    value: Option<prost_types::Duration>,
    part: &'static str,
) -> Result<Duration, InvalidPolicy> {
    convert_duration(&required(value, part)?).ok_or(InvalidPolicy::Duration(part))
}

/// The pauses between attempts, or the lengths of ejections.
pub(super) fn backoff(wire: ExponentialBackoff) -> Result<Backoff, InvalidPolicy> {
    let min = duration(wire.min_backoff, "a backoff's minimum")?;
    let max = duration(wire.max_backoff, "a backoff's maximum")?;
    Ok(Backoff::new(min, max, f64::from(wire.jitter_ratio))?)
}

/// A match of a host or of a suffix.
pub(super) fn host(exact: Option<String>, reverse_labels: Vec<String>) -> HostMatch {
    match exact {
        Some(exact) => HostMatch::Exact(exact),
        None => HostMatch::Suffix(reverse_labels),
    }
}
