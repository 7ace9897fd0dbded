//! Errors of policies.

use crate::convert::endpoint::InvalidEndpoint;
use linkerd_proxy_core::InvalidDestination;

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
