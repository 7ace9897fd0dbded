//! Client policies.

mod backend;
mod http;
mod shared;
mod tcp;

use super::endpoint::InvalidEndpoint;
use linkerd_api_proto::{
    meta as wire_meta,
    outbound::{OutboundPolicy, proxy_protocol},
    prost_types,
};
use linkerd_profiles::{ClientPolicy, HostMatch, Meta, Protocol, Resource};
use linkerd_proxy_core::InvalidDestination;
use std::{collections::BTreeSet, num::NonZeroU16, sync::Arc, time::Duration};

/// The reason why a policy is invalid. All of it is refused: half a policy could let through what the other half
/// forbids.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPolicy {
    /// A field that must be set is not.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A resource reference lacks a part.
    #[error("a resource reference has no {0}")]
    Resource(&'static str),
    /// A port is out of range.
    #[error("the port of a resource reference ({0}) is above 65535")]
    Port(u32),
    /// A duration is negative or malformed.
    #[error("{0} is no duration")]
    Duration(&'static str),
    /// A distribution has no backend.
    #[error("a distribution over backends has none")]
    NoBackends,
    /// Nothing could ever be chosen.
    #[error("a distribution over {0} backends gives all of them the weight 0")]
    ZeroWeights(usize),
    /// The weights cannot be added.
    #[error("the weights of a distribution exceed 32 bits")]
    Weights,
    /// The endpoints of a balancer cannot be discovered.
    #[error("a balancer's destination must be `name:port`, and {:?} is not", .0.0)]
    Destination(#[from] InvalidDestination),
    /// A backend forwards to an endpoint that cannot be used.
    #[error("cannot forward: {0}")]
    Endpoint(#[from] InvalidEndpoint),
    /// Opaque connections have one route.
    #[error("opaque traffic has {0} routes; at most one is possible")]
    OpaqueRoutes(usize),
    /// Routes of connections have one rule.
    #[error("a TCP or TLS route has {0} rules; it must have one")]
    Rules(usize),
}

/// Parts of a message that are not acted on.
#[derive(Debug, Default)]
struct NotHonoured(BTreeSet<&'static str>);

/// Converts a policy. An invalid one is converted into a policy that lets nothing pass.
pub fn client_policy(policy: OutboundPolicy) -> ClientPolicy {
    let converted = try_policy(policy);
    let mut policy = converted.unwrap_or_else(|invalid| ClientPolicy::invalid(invalid.to_string()));
    shared::share_metas(&mut policy);
    policy
}

fn try_policy(policy: OutboundPolicy) -> Result<ClientPolicy, InvalidPolicy> {
    use proxy_protocol::Kind;
    let mut later = NotHonoured::default();
    let parent = meta(policy.metadata, "the policy's metadata")?;
    let kind = required(
        policy.protocol.and_then(|protocol| protocol.kind),
        "the protocol",
    )?;
    let protocol = match kind {
        Kind::Detect(detect) => {
            let http1 = required(detect.http1, "the HTTP/1 part of the protocol")?;
            let http2 = required(detect.http2, "the HTTP/2 part of the protocol")?;
            let opaque = required(detect.opaque, "the opaque part of the protocol")?;
            later.accrual(http1.failure_accrual.as_ref());
            later.accrual(http2.failure_accrual.as_ref());
            Protocol::Detect {
                timeout: duration(detect.timeout, "the detection timeout")?,
                http1: http::routes(http1.routes, &mut later)?,
                http2: http::routes(http2.routes, &mut later)?,
                opaque: tcp::opaque(opaque.routes, &mut later)?,
            }
        }
        Kind::Http1(http1) => {
            later.accrual(http1.failure_accrual.as_ref());
            Protocol::Http1(http::routes(http1.routes, &mut later)?)
        }
        Kind::Http2(http2) => {
            later.accrual(http2.failure_accrual.as_ref());
            Protocol::Http2(http::routes(http2.routes, &mut later)?)
        }
        Kind::Grpc(grpc) => {
            later.accrual(grpc.failure_accrual.as_ref());
            Protocol::Grpc(http::routes(grpc.routes, &mut later)?)
        }
        Kind::Opaque(opaque) => Protocol::Opaque(tcp::opaque(opaque.routes, &mut later)?),
        Kind::Tls(tls) => Protocol::Tls(tcp::tls(tls.routes, &mut later)?),
    };
    Ok(ClientPolicy {
        parent,
        protocol,
        invalid: None,
        not_honoured: later.list(),
    })
}

fn meta(wire: Option<wire_meta::Metadata>, what: &'static str) -> Result<Arc<Meta>, InvalidPolicy> {
    use wire_meta::metadata::Kind;
    let meta = match required(wire.and_then(|meta| meta.kind), what)? {
        Kind::Default(name) => Meta::Default(non_empty(name, "name")?),
        Kind::Resource(resource) => Meta::Resource(Resource {
            group: non_empty(resource.group, "group")?,
            kind: non_empty(resource.kind, "kind")?,
            name: non_empty(resource.name, "name")?,
            namespace: non_empty(resource.namespace, "namespace")?,
            section: Some(resource.section).filter(|section| !section.is_empty()),
            port: u16::try_from(resource.port)
                .map(NonZeroU16::new)
                .map_err(|_| InvalidPolicy::Port(resource.port))?,
        }),
    };
    Ok(Arc::new(meta))
}

fn required<T>(value: Option<T>, what: &'static str) -> Result<T, InvalidPolicy> {
    value.ok_or(InvalidPolicy::Missing(what))
}

fn non_empty(text: String, what: &'static str) -> Result<String, InvalidPolicy> {
    if text.is_empty() {
        return Err(InvalidPolicy::Resource(what));
    }
    Ok(text)
}

fn duration(
    value: Option<prost_types::Duration>,
    what: &'static str,
) -> Result<Duration, InvalidPolicy> {
    super::duration(&required(value, what)?).ok_or(InvalidPolicy::Duration(what))
}

/// The labels of a suffix or the host itself. A match that is not set matches nothing, so it is left out by the caller.
fn host(exact: Option<String>, reverse_labels: Vec<String>) -> HostMatch {
    match exact {
        Some(exact) => HostMatch::Exact(exact),
        None => HostMatch::Suffix(reverse_labels),
    }
}

impl NotHonoured {
    fn note(&mut self, present: bool, what: &'static str) {
        if present {
            self.0.insert(what);
        }
    }

    fn accrual(&mut self, accrual: Option<&linkerd_api_proto::outbound::FailureAccrual>) {
        let present = accrual.is_some_and(|accrual| accrual.kind.is_some());
        self.note(present, "failure accrual");
    }

    fn list(self) -> Vec<&'static str> {
        self.0.into_iter().collect()
    }
}

#[cfg(test)]
mod tests;
