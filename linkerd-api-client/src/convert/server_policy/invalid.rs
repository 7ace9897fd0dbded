//! Errors of policies of ports.

use crate::convert::policy::InvalidPolicy;

/// The reason why the policy of a port is invalid. The whole policy is refused: half a policy could admit clients that the
/// other half refuses.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InvalidServer {
    /// A required field is missing.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// The detection timeout is negative or malformed.
    #[error("the detection timeout is no duration")]
    DetectTimeout,
    /// An authorization has no network, so that it could not admit any client.
    #[error("an authorization has no networks")]
    NoNetworks,
    /// A network is malformed.
    #[error("a network of an authorization is none: {0}")]
    Network(String),
    /// A resource's labels contain no name.
    #[error("a resource's labels have no name")]
    NoName,
    /// A limit is for an impossible identity.
    #[error("a rate limit is for an impossible identity: {0}")]
    Identity(String),
    /// A condition or a filter of a route is invalid.
    #[error(transparent)]
    Route(#[from] InvalidPolicy),
}
